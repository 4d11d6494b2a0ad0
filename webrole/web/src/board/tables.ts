// The board as tables, for screen readers. Where the stream does not come through the
// server has the same as a page: /board/tables.
import { $, type BoardLane, type BoardQueue, type Poison, element } from '../api';
import { type Model } from './model';

type Cell = Node | string;
const row = (first: string, ...cells: (Cell | Cell[])[]) => element('tr', {}, element('th', { scope: 'row' }, first),
  ...cells.map((cell) => element('td', {}, ...[cell].flat())));

export interface TableActions {
  pause(queue: BoardQueue, button: HTMLButtonElement): void;
  clear(name: string): void;
  redrive(poison: Poison): void;
}

// A table is drawn again only when it changed, and then the focus stays on the button
// that is in its place: Resume where Pause was.
const drawn = new Map<string, string>();
function draw<T>(id: string, items: T[], make: (item: T) => Node) {
  const looks = JSON.stringify(items);
  if (drawn.get(id) === looks) return;
  drawn.set(id, looks);
  const place = () => [...$(id).querySelectorAll('button')];
  const at = place().findIndex((button) => button === document.activeElement);
  $(id).replaceChildren(...items.map(make));
  if (at >= 0) (place()[at] ?? place().at(-1) ?? $('tables').querySelector('summary'))?.focus();
}

function button(text: string, label: string, run: (self: HTMLButtonElement) => void) {
  const made = element('button', { type: 'button', 'aria-label': label }, text);
  made.addEventListener('click', () => run(made));
  return made;
}

export function drawTables(model: Model, actions: TableActions) {
  const lanes = [...model.queues.values()].flatMap((q) => q.lanes.map((lane, i): [BoardQueue, BoardLane, boolean] => [q, lane, i === 0]));
  draw('queues', lanes, ([q, lane, first]) => {
    const verb = q.paused ? 'Resume' : 'Pause';
    const buttons = [button('Clear', `clear queue ${lane.name}`, () => actions.clear(lane.name))];
    if (first) buttons.unshift(button(verb, `${verb.toLowerCase()} queue ${q.name}`, (self) => actions.pause(q, self)));
    return row(lane.name, q.pool, String(lane.length), `${q.visibilitySeconds} s`, q.paused ? 'paused' : 'open', buttons);
  });
  draw('workers', [...model.workers.values()], (w) => row(w.name,
    new Date(w.seenAt).toLocaleTimeString() + (w.silent ? ', silent' : '') + (w.trouble ? `, receives nothing: ${w.trouble}` : ''),
    w.tasks.map((t) => `${t.step} ${t.video}, delivery ${t.dequeueCount}`).join(', ') || 'nothing', String(w.done)));
  draw('poison', model.poison, (p) => row(p.queue, p.step || '', p.reason, new Date(p.poisonedAt).toLocaleString(),
    [button('Redrive', `redrive ${p.step || 'item'} of queue ${p.queue}`, () => actions.redrive(p))]));
}
