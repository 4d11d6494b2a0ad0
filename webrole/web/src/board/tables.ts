// The board as tables: for screen readers, and where the stream does not come through.
import { $, type Poison, call, element } from '../api';
import type { List, Queue, Worker } from '../api';
import { type Model } from './model';

type Cell = Node | string;
const row = (first: string, ...cells: (Cell | Cell[])[]) => element('tr', {}, element('th', { scope: 'row' }, first),
  ...cells.map((cell) => element('td', {}, ...[cell].flat())));

interface Line { name: string; pool: string; length: number; visibility: string; paused: boolean; poison: boolean; lead: boolean }
interface Busy { name: string; seen: string; busy: string; done: string }

export interface TableActions {
  pause(name: string, paused: boolean, button: HTMLButtonElement): void;
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

function drawAll(queues: Line[], workers: Busy[], poison: Poison[], actions: TableActions) {
  draw('queues', queues, (q) => {
    const verb = q.paused ? 'resume' : 'pause';
    const buttons = q.lead ? [button(q.paused ? 'Resume' : 'Pause', `${verb} queue ${q.name}`, (self) => actions.pause(q.name, q.paused, self))] : [];
    buttons.push(button('Clear', `clear queue ${q.name}`, () => actions.clear(q.name)));
    return row(q.name, q.pool, String(q.length), q.visibility, q.poison ? '' : q.paused ? 'paused' : 'open', buttons);
  });
  draw('workers', workers, (w) => row(w.name, w.seen, w.busy || 'nothing', w.done));
  draw('poison', poison, (p) => row(p.queue, p.step || '', p.reason, new Date(p.poisonedAt).toLocaleString(),
    [button('Redrive', `redrive ${p.step || 'item'} of queue ${p.queue}`, () => actions.redrive(p))]));
}

export function fromModel(model: Model, actions: TableActions) {
  const queues = [...model.queues.values()].flatMap((q) => q.lanes.map((l, i) => ({
    name: l.name, pool: q.pool, length: l.length, visibility: `${q.visibilitySeconds} s`, paused: q.paused, poison: false, lead: i === 0,
  })));
  const workers = [...model.workers.values()].map((w) => ({
    name: w.name, seen: new Date(w.seenAt).toLocaleTimeString() + (w.silent ? ', silent' : '') + (w.trouble ? `, receives nothing: ${w.trouble}` : ''), done: String(w.done),
    busy: w.tasks.map((t) => `${t.step} ${t.video}, delivery ${t.dequeueCount}`).join(', '),
  }));
  drawAll(queues, workers, model.poison, actions);
}

// fromAPI asks the routes that answer once.
export async function fromAPI(actions: TableActions) {
  const [queues, workers, poison] = await Promise.all([
    call<List<Queue>>('GET', '/ops/queues'), call<List<Worker>>('GET', '/ops/workers'), call<List<Poison>>('GET', '/ops/poison')]);
  const lines = queues.items.filter((q) => !q.poison || q.length > 0).map((q) => ({
    name: q.name, pool: q.pool ?? '', length: q.length, visibility: q.poison ? '' : `${q.visibilitySeconds} s`, paused: q.paused, poison: q.poison, lead: !q.poison,
  }));
  drawAll(lines, workers.items.map((w) => ({
    name: w.name, seen: new Date(w.lastSeenAt).toLocaleTimeString(), done: String(w.details?.done ?? ''),
    busy: ((w.details?.busy ?? []) as { step: string; video: string }[]).map((t) => `${t.step} ${t.video}`).join(', '),
  })), poison.items, actions);
}
