// The bar below the player: which parts of the video are made, who makes the others,
// and what there is to see where the pointer is. It seeks, by pointer and by keyboard.
import { $, type Step, duration, message, say } from './api';
import { draw, html } from './html';
import type { Player } from './player';
import { paint, tileAt } from './storyboard';

const stateWords: Record<string, string> = { queued: 'waiting', running: 'being made', done: 'made', failed: 'failed' };

interface Part { from: number; to: number; state: string; words: string }

export class Scrub {
  private parts: Part[] = [];
  private length = 0;
  board: string | undefined; // the address of its pictures, once there are any

  private readonly preview = $('preview');
  private readonly picture = $('preview-picture');
  goTo = (_: number) => say('This part is not made yet.'); // is asked where the playlist does not reach

  // The bar is an element with role slider.
  constructor(private readonly bar: HTMLElement, private readonly playing: Player) {
    const player = playing.element;
    bar.addEventListener('pointermove', (event) => { this.show(this.at(event)).catch((err) => console.info('storyboard', message(err))); });
    bar.addEventListener('pointerleave', () => { this.preview.hidden = true; });
    bar.addEventListener('click', (event) => this.seek(this.at(event)));
    bar.addEventListener('keydown', (event) => this.key(event));
    for (const kind of ['timeupdate', 'seeking', 'durationchange']) player.addEventListener(kind, () => this.move());
  }

  // update draws the steps that make pictures, of a video of so many seconds.
  update(steps: Step[], length: number) {
    this.parts = steps.flatMap((s): Part[] => {
      if (s.from === undefined || s.to === undefined) return [];
      const again = s.attempts > 1 ? `, attempt ${s.attempts}` : '';
      const who = s.worker && s.state !== 'queued' ? ` by ${s.worker}` : '';
      return [{ from: s.from, to: s.to, state: s.state, words: `${stateWords[s.state] ?? s.state}${who}${again}` }];
    });
    this.length = length || this.parts.at(-1)?.to || 0;
    this.bar.hidden = this.parts.length === 0 || this.length === 0;
    draw($('parts'), html`${this.parts.map((p) => html`<div data-state="${p.state}" ${p.words.includes('attempt') && 'data-again'} data-style="flex-grow:${p.to - p.from}"></div>`)}`);
    this.move();
  }

  // mark shows which second is waited for, if one is.
  mark(second: number | null) {
    $('wish').hidden = second === null;
    if (second !== null) $('wish').style.left = this.place(second);
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
    const now = this.playing.element.currentTime;
    const to = { ArrowLeft: now - 5, ArrowDown: now - 5, ArrowRight: now + 5, ArrowUp: now + 5, PageDown: now - 60, PageUp: now + 60, Home: 0, End: this.length - 0.1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.seek(Math.max(0, Math.min(to, this.length)));
  }

  private move() {
    const now = this.playing.element.currentTime;
    $('playhead').style.left = this.place(now);
    this.bar.setAttribute('aria-valuemax', String(Math.round(this.length)));
    this.bar.setAttribute('aria-valuenow', String(Math.round(now)));
    const made = this.parts.filter((p) => p.state === 'done').length;
    this.bar.setAttribute('aria-valuetext', `${duration(now)} of ${duration(this.length)}; ${made} of ${this.parts.length} parts are made`);
  }

  private async show(second: number) {
    const part = this.partAt(second);
    if (!part) return;
    this.preview.hidden = false;
    $('preview-time').textContent = `${duration(second)} · ${part.words}`;
    this.placePreview(second);
    const tile = await tileAt(this.board, second);
    this.picture.hidden = !tile;
    if (tile) paint(this.picture, tile);
    this.placePreview(second);
  }

  private placePreview(second: number) {
    const half = this.preview.offsetWidth / 2;
    // Parts of the bar, and not pixels: the window may become narrower while it is shown.
    this.preview.style.left = `clamp(${half}px, ${second / this.length * 100}%, calc(100% - ${half}px))`;
  }
}
