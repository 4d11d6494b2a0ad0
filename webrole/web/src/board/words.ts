// What happens, in words: a list for people who read, and now and then a sentence for
// people who listen. A screen reader that gets every event gets none across.
import { add, html } from '../html';
import type { Token } from './model';

const kept = 100;
const pause = 5000;

export class Words {
  private waiting: string[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly list: HTMLElement, private readonly voice: HTMLElement) {}

  say(lines: string[], at: number) {
    if (!lines.length) return;
    const time = new Date(at);
    add(this.list, html`${lines.slice(-kept).reverse().map((line) => html`<li><time datetime="${time.toISOString()}">${time.toLocaleTimeString()}</time> ${line}</li>`)}`, 'afterbegin');
    while (this.list.childElementCount > kept) this.list.lastElementChild?.remove();
    this.waiting.push(...lines);
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const more = this.waiting.length - 2;
      this.voice.textContent = this.waiting.slice(-2).join(' ') + (more > 0 ? ` And ${more} more.` : '');
      this.waiting = [];
    }, pause);
  }
}

export function where(t: Token) {
  switch (t.place.kind) {
    case 'lane': return `waiting in ${t.place.lane}`;
    case 'hidden': return `hidden in ${t.place.lane}`;
    case 'slot': return `held by ${t.place.worker}`;
    case 'poison': return `poison of ${t.queue}`;
  }
}
