// A sequence diagram that grows: who takes part as columns, and one row for each arrow.
import { svg, type Schemas } from './api';

type Event = Schemas['LabSceneEvent'];

const top = 34;
const row = 48;
const column = 160;
const margin = 84; // from the left edge to the first column
const letters = 24; // of a label before it is cut; all of it is in the text beside

const cut = (text: string, most = letters) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export class Sequence {
  private who: string[] = [];
  private rows: Event[] = [];

  clear(cast: string[]) {
    this.who = cast;
    this.rows = [];
  }

  add(e: Event) {
    for (const name of [e.from, e.to]) {
      if (name && !this.who.includes(name)) this.who.push(name);
    }
    if (e.from || e.kind === 'step') this.rows.push(e);
  }

  private x(name: string | undefined) { return margin + column * Math.max(0, this.who.indexOf(name ?? '')); }

  draw() {
    const width = Math.max(2 * margin + column * (this.who.length - 1), 2 * margin);
    const height = top + row * (this.rows.length + 1);
    const words = `A sequence of ${this.rows.length} between ${this.who.join(', ')}. The text beside it says the same.`;
    const drawn = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': words });
    for (const name of this.who) {
      drawn.append(
        svg('line', { class: 'life', x1: this.x(name), x2: this.x(name), y1: top, y2: height - 22 }),
        svg('text', { class: 'who', x: this.x(name), y: 20, 'text-anchor': 'middle' }, cut(name)),
        svg('text', { class: 'who', x: this.x(name), y: height - 6, 'text-anchor': 'middle' }, cut(name)), // the top may be out of sight
      );
    }
    this.rows.forEach((e, i) => drawn.append(this.line(e, top + row * (i + 1), width)));
    return drawn;
  }

  private line(e: Event, y: number, width: number) {
    if (e.kind === 'step') return svg('line', { class: 'step', x1: 0, x2: width, y1: y, y2: y });
    const from = this.x(e.from);
    if (e.from === e.to) {
      const text = cut(e.text, 26);
      return svg('g', {},
        svg('rect', { class: 'plate', x: from - 80, y: y - 12, width: 160, height: 20 }),
        svg('text', { x: from, y: y + 3, 'text-anchor': 'middle' }, text));
    }
    const to = this.x(e.to);
    const refused = e.wire && (!e.wire.status || e.wire.status >= 400) ? ' refused' : '';
    const side = to > from ? 1 : -1;
    const middle = from + side * column / 2; // the label is beside who asks
    const label = (text: string, dy: number, name: string) => [
      svg('rect', { class: 'plate', x: middle - 76, y: y + dy - 11, width: 152, height: 14 }),
      svg('text', { class: name, x: middle, y: y + dy, 'text-anchor': 'middle' }, cut(text)),
    ];
    const tip = (x: number, at: number, pointing: number, name: string) =>
      svg('path', { class: `tip${name}`, d: `M${x},${at} l${-8 * pointing},-4 v8 z` });
    return svg('g', {},
      ...label(e.text, -12, ''), ...label(e.reply ?? '', 20, 'soft'),
      svg('path', { class: 'arrow', d: `M${from},${y - 4} H${to}` }), tip(to, y - 4, side, ''),
      svg('path', { class: `arrow back${refused}`, d: `M${to},${y + 4} H${from}` }), tip(from, y + 4, -side, refused));
  }
}
