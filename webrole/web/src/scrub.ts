// The bar below the player: which parts of the video are made, who makes the others,
// and what there is to see where the pointer is. It seeks, by pointer and by keyboard.
import { type Step, duration, element } from './api';
import type { Player } from './player';
import { type Tile, paint, read } from './storyboard';

const stateWords: Record<string, string> = { queued: 'waiting', running: 'being made', done: 'made', failed: 'failed' };

interface Part { from: number; to: number; state: string; words: string }

export class Scrub {
  private parts: Part[] = [];
  private tiles: Tile[] = [];
  private length = 0;
  private drawn = '';
  private board = '';

  private readonly made = element('div', { class: 'parts' });
  private readonly head = element('div', { class: 'playhead' });
  private readonly wish = element('div', { class: 'playhead wish', hidden: true });
  private readonly picture = element('div', { class: 'tile' });
  private readonly time = element('span');
  private readonly preview = element('div', { class: 'preview', hidden: true }, this.picture, this.time);

  private readonly player: HTMLVideoElement;

  // The bar is an element with role slider; where the playlist does not reach, goTo is
  // asked to go.
  constructor(private readonly bar: HTMLElement, private readonly playing: Player, private readonly goTo: (second: number) => void) {
    const player = this.player = playing.element;
    bar.replaceChildren(this.made, this.head, this.wish, this.preview);
    bar.addEventListener('pointermove', (event) => this.show(this.at(event)));
    bar.addEventListener('pointerleave', () => { this.preview.hidden = true; });
    bar.addEventListener('click', (event) => this.seek(this.at(event)));
    bar.addEventListener('keydown', (event) => this.key(event));
    for (const kind of ['timeupdate', 'seeking', 'durationchange']) player.addEventListener(kind, () => this.move());
  }

  // update draws the steps that make pictures, of a video of so many seconds.
  update(steps: Step[], length: number) {
    const parts = steps.flatMap((s): Part[] => {
      if (s.from === undefined || s.to === undefined) return [];
      const again = s.attempts > 1 ? `, attempt ${s.attempts}` : '';
      const who = s.worker && s.state !== 'queued' ? ` by ${s.worker}` : '';
      return [{ from: s.from, to: s.to, state: s.state, words: `${stateWords[s.state] ?? s.state}${who}${again}` }];
    });
    const looks = JSON.stringify(parts);
    this.length = length || parts.at(-1)?.to || 0;
    this.bar.hidden = parts.length === 0 || this.length === 0;
    if (looks === this.drawn) return;
    this.drawn = looks;
    this.parts = parts;
    this.made.replaceChildren(...parts.map((p) => {
      const box = element('div', { 'data-state': p.state, 'data-again': p.words.includes('attempt') });
      box.style.flexGrow = String(p.to - p.from);
      return box;
    }));
    this.move();
  }

  // pictures reads the storyboard, once there is one.
  async pictures(url: string | undefined) {
    if (!url || url === this.board) return;
    this.board = url;
    try {
      this.tiles = await read(url);
    } catch (err) {
      this.board = ''; // it is asked for again
      throw err;
    }
  }

  // mark shows which second is waited for, if one is.
  mark(second: number | null) {
    this.wish.hidden = second === null;
    if (second !== null) this.wish.style.left = this.place(second);
  }

  // words says how far the part is that shows a second.
  words(second: number) { return this.partAt(second)?.words ?? 'waiting'; }

  private partAt(second: number) {
    return this.parts.find((p) => second >= p.from && second < p.to) ?? this.parts.at(-1);
  }

  private at(event: MouseEvent) {
    const box = this.bar.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * this.length;
  }

  private place(second: number) { return `${this.length ? Math.min(1, second / this.length) * 100 : 0}%`; }

  seek(second: number) {
    if (this.playing.has(second)) this.playing.seek(second);
    else this.goTo(second);
  }

  private key(event: KeyboardEvent) {
    const now = this.player.currentTime;
    const to = { ArrowLeft: now - 5, ArrowDown: now - 5, ArrowRight: now + 5, ArrowUp: now + 5, PageDown: now - 60, PageUp: now + 60, Home: 0, End: this.length - 0.1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.seek(Math.max(0, Math.min(to, this.length)));
  }

  private move() {
    const now = this.player.currentTime;
    this.head.style.left = this.place(now);
    this.bar.setAttribute('aria-valuemax', String(Math.round(this.length)));
    this.bar.setAttribute('aria-valuenow', String(Math.round(now)));
    const made = this.parts.filter((p) => p.state === 'done').length;
    this.bar.setAttribute('aria-valuetext', `${duration(now)} of ${duration(this.length)}; ${made} of ${this.parts.length} parts are made`);
  }

  private show(second: number) {
    const part = this.partAt(second);
    if (!part) return;
    const tile = this.tiles.find((t) => second >= t.from && second < t.to);
    this.preview.hidden = false;
    this.time.textContent = `${duration(second)} · ${part.words}`;
    this.picture.hidden = !tile;
    if (tile) paint(this.picture, tile);
    const half = this.preview.offsetWidth / 2;
    // Parts of the bar, and not pixels: the window may become narrower while it is shown.
    this.preview.style.left = `clamp(${half}px, ${second / this.length * 100}%, calc(100% - ${half}px))`;
  }
}
