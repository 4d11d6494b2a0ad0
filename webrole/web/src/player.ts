// Plays a video in an element of the page: while it is made, and when it is ready.
import type HlsPlayer from 'hls.js';
import type { ErrorData } from 'hls.js';
import { $, type Video, call, message, sleep } from './api';

// The library is a script of its own, beside ours.
declare global {
  interface Window { Hls?: typeof HlsPlayer }
}

const mostRecoveries = 10;

// Viewers are what is paid for: nothing of the film is loaded before it is played,
// and no more than a minute ahead.
const mostAhead = 60; // seconds

// Quality is one that a viewer may choose.
export interface Quality { value: number; name: string }

export class Player {
  private hls: HlsPlayer | null = null;
  private video: Video | null = null;
  private attached = false;
  private goesOn = false; // it plays when it can
  private source = ''; // the list of tracks that was opened last
  private turned = false;
  private recoveries = 0;
  private readonly start = $('play');
  begins = 0; // the second that the playlist begins with

  // tell says what went wrong; offer gets the qualities, when there are several.
  constructor(readonly element: HTMLVideoElement, private readonly tell: (text: string) => void, private readonly offer: (list: Quality[]) => void = () => {}) {
    this.start.addEventListener('click', () => this.toggle());
    // One view for each visit, when the picture moves. A view that cannot be counted
    // is no reason to trouble anybody.
    element.addEventListener('playing', () => {
      if (this.video) call('POST', `/videos/${this.video.id}/views`).catch((err) => console.info('view', message(err)));
    }, { once: true });
  }

  // update takes the video as it is now, and begins to play it when it can be played.
  update(video: Video) {
    this.video = video;
    this.turnDown(video);
    if (!video.links.master || this.attached) return;
    this.attached = true;
    this.element.hidden = false;
    if (video.links.poster) this.element.poster = video.links.poster;
    this.attach(video, video.links.master);
  }

  // A growing playlist is no live stream: without startPosition a player that
  // joins late starts near the end. Native HLS comes second, because some browsers
  // say "maybe" to it and then cannot play a playlist that grows.
  private attach(video: Video, master: string) {
    const { Hls } = window;
    this.source = master;
    if (Hls?.isSupported()) {
      const start = startAt(video);
      this.hls = new Hls({
        startPosition: start, capLevelToPlayerSize: true, autoStartLoad: start > 0 || this.element.autoplay || !this.element.paused,
        maxBufferLength: 30, maxMaxBufferLength: mostAhead,
      });
      this.hls.on(Hls.Events.ERROR, (_, data) => { void this.failed(data); });
      this.hls.on(Hls.Events.MANIFEST_PARSED, (_, { levels }) => {
        const list = levels.map((level, value) => ({ value, name: `${Math.min(level.width, level.height)}p` }));
        if (list.length > 1) this.offer([{ value: -1, name: 'Automatic' }, ...list]);
      });
      this.hls.loadSource(master);
      this.hls.attachMedia(this.element);
      this.element.addEventListener('play', () => this.startLoading(-1), { once: true });
      // In their place is a button: they would say that something is being loaded.
      this.element.controls = this.hls.config.autoStartLoad;
    } else if (this.element.canPlayType('application/vnd.apple.mpegurl')) {
      this.element.src = `${master}#t=${startAt(video)}`;
    } else {
      this.tell('This browser cannot play the video here. Download it instead.');
    }
  }

  // startLoading loads the film from a second on, or from where it was to start: -1.
  private startLoading(second: number) {
    if (!this.hls || this.hls.config.autoStartLoad) return;
    this.showControls();
    if (this.hls.levels.length) this.hls.startLoad(second);
  }

  // showControls puts the browser's controls in place of the button: the film is wanted.
  private showControls() {
    if (!this.hls) return;
    this.hls.config.autoStartLoad = true; // from now on, also of another playlist
    const focused = document.activeElement === this.start;
    this.element.controls = true;
    if (focused) this.element.focus();
  }

  // seek goes to a second that the playlist reaches.
  seek(second: number) {
    this.startLoading(second);
    this.element.currentTime = second;
  }

  // toggle plays or pauses.
  toggle() {
    if (!this.element.paused) this.element.pause();
    else this.element.play().catch((err) => console.info('play', message(err)));
  }

  choose(quality: number) {
    if (this.hls) this.hls.nextLevel = quality;
  }

  // reload reads the list of tracks again, and goes on where it is.
  reload() {
    if (this.video?.links.master) this.open(this.video.links.master, this.element.currentTime, this.begins);
  }

  // has reports whether the playlist reaches a second.
  has(second: number) {
    const { seekable } = this.element;
    if (!seekable.length && this.video?.links.download) return second <= this.video.durationSeconds; // nothing was loaded yet
    return second >= this.begins && second <= (seekable.length ? seekable.end(seekable.length - 1) : 0);
  }

  // open plays a playlist that begins with a second of the video, at another one.
  open(master: string, second: number, from: number) {
    const go = this.goesOn || !this.element.paused || this.element.ended;
    this.begins = from;
    this.source = master;
    if (this.hls) {
      this.showControls();
      this.hls.config.startPosition = second;
      this.hls.loadSource(master);
    } else {
      this.element.src = `${master}#t=${second}`;
    }
    if (!go || this.goesOn) return;
    // Loading another list pauses the element; there may be yet another before it plays.
    this.goesOn = true;
    this.element.addEventListener('canplay', () => {
      this.goesOn = false;
      this.element.play().catch((err) => console.info('play', message(err)));
    }, { once: true });
  }

  stop() {
    this.hls?.destroy();
  }

  // A video that is louder than others is turned down, once, before anybody has
  // touched the control.
  private turnDown(video: Video) {
    const gain = Math.min(0, ...(video.made ?? []).map((m) => Number(m.facts?.gainDb ?? 0)));
    if (this.turned || gain === 0) return;
    this.turned = true;
    if (this.element.volume === 1) this.element.volume = 10 ** (gain / 20);
  }

  private async failed(data: ErrorData) {
    console.info('hls', data.type, data.details, data.fatal);
    if (!data.fatal) return; // hls.js deals with those by itself
    if (this.recoveries++ > mostRecoveries) {
      this.tell('Playback does not recover. Reload the page to try again.');
      return;
    }
    await sleep(1000);
    if (data.type === window.Hls?.ErrorTypes.MEDIA_ERROR) this.hls?.recoverMediaError();
    else if (this.hls?.levels.length) this.hls.startLoad();
    else this.hls?.loadSource(this.source); // it could not be read
  }
}

// "?t=12.3" and "#t=12.3" start there, as the moments of a race ask for; a video
// that is still growing starts at 0, for that moment may not be there yet.
function startAt(video: Video) {
  const t = Number(new URLSearchParams(location.search || location.hash.slice(1)).get('t'));
  return video.links.download && t > 0 && t < video.durationSeconds ? t : 0;
}
