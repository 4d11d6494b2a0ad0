// A sequence diagram that grows: who takes part as columns, and one row for each arrow.
import type { Schemas } from './api';
import { type Html, html } from './html';

type Event = Schemas['LabSceneEvent'];

const top = 34;
const row = 48;
const column = 160;
const margin = 84; // from the left edge to the first column
const letters = 24; // of a label before it is cut; all of it is in the text beside

const cut = (text: string, most = letters) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const text = (x: number, y: number, words: string, name = '') => html`<text class="${name}" x="${x}" y="${y}" text-anchor="middle">${words}</text>`;
const plate = (x: number, y: number, width: number, height: number) => html`<rect class="plate" x="${x - width / 2}" y="${y}" width="${width}" height="${height}"></rect>`;

// sequence draws what happened between those who take part, and those who came later.
export function sequence(cast: string[], events: Event[]): Html {
  const who = [...new Set([...cast, ...events.flatMap(({ from, to }) => [from, to])])].filter((name) => name !== undefined && name !== '') as string[];
  const rows = events.filter((e) => e.from || e.kind === 'step');
  const x = (name: string | undefined) => margin + column * Math.max(0, who.indexOf(name ?? ''));
  const width = Math.max(2 * margin + column * (who.length - 1), 2 * margin);
  const height = top + row * (rows.length + 1);
  const words = `A sequence of ${rows.length} between ${who.join(', ')}. The text beside it says the same.`;
  return html`<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${words}">${who.map((name) => html`
    <line class="life" x1="${x(name)}" x2="${x(name)}" y1="${top}" y2="${height - 22}"></line>
    ${text(x(name), 20, cut(name), 'who')}${text(x(name), height - 6, cut(name), 'who')}`)}${rows.map((e, i) => {
    const y = top + row * (i + 1);
    if (e.kind === 'step') return html`<line class="step" x1="0" x2="${width}" y1="${y}" y2="${y}"></line>`;
    return html`<g>${e.from === e.to ? [plate(x(e.from), y - 12, 160, 20), text(x(e.from), y + 3, cut(e.text, 26))] : arrows(e, x(e.from), x(e.to), y)}</g>`;
  })}</svg>`;
}

// arrows are the request and its answer. The labels are beside who asks.
function arrows(e: Event, from: number, to: number, y: number) {
  const refused = e.wire && (!e.wire.status || e.wire.status >= 400) ? 'refused' : '';
  const side = to > from ? 1 : -1;
  const middle = from + side * column / 2;
  const tip = (x: number, at: number, pointing: number, name: string) => html`<path class="tip ${name}" d="M${x},${at} l${-8 * pointing},-4 v8 z"></path>`;
  return [
    plate(middle, y - 23, 152, 14), text(middle, y - 12, cut(e.text)), plate(middle, y + 9, 152, 14), text(middle, y + 20, cut(e.reply ?? ''), 'soft'),
    html`<path class="arrow" d="M${from},${y - 4} H${to}"></path>`, tip(to, y - 4, side, ''),
    html`<path class="arrow back ${refused}" d="M${to},${y + 4} H${from}"></path>`, tip(from, y + 4, -side, refused)];
}
