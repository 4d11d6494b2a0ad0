// The board as tables, for screen readers. Where the stream does not come through the
// server has the same as a page: /board/tables.
import { $ } from '../api';
import { type Part, drawAll, html, row } from '../html';
import type { Model } from './model';

const button = (press: string, of: string, text: string, label: string) =>
  html`<button type="button" data-press="${press}" data-of="${of}" aria-label="${label}">${text}</button>`;

export function drawTables(model: Model) {
  const id = (kind: string, name: string) => html`id="${kind}-row-${name}"`;
  drawAll([[$('queues'), html`${[...model.queues.values()].flatMap((q) => q.lanes.map((lane, i) => {
    const verb = q.paused ? 'Resume' : 'Pause';
    const buttons: Part = [i === 0 && button('pause', q.name, verb, `${verb.toLowerCase()} queue ${q.name}`), button('clear', lane.name, 'Clear', `clear queue ${lane.name}`)];
    return row(lane.name, [q.pool, lane.length, `${q.visibilitySeconds} s`, q.paused ? 'paused' : 'open', buttons], id('queue', lane.name));
  }))}`],
  [$('workers'), html`${[...model.workers.values()].map((w) => row(w.name, [
    new Date(w.seenAt).toLocaleTimeString() + (w.silent ? ', silent' : '') + (w.trouble ? `, receives nothing: ${w.trouble}` : ''),
    w.tasks.map((t) => `${t.step} ${t.video}, delivery ${t.dequeueCount}`).join(', ') || 'nothing', w.done], id('worker', w.name)))}`],
  [$('poison'), html`${model.poison.map((p) => row(p.queue, [p.step, p.reason, new Date(p.poisonedAt).toLocaleString(),
    button('redrive', p.id, 'Redrive', `redrive ${p.step || 'item'} of queue ${p.queue}`)], id('poison', p.id)))}`]]);
}
