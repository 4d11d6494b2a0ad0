import { $, type List, type Poison, Problem, type Queue, type Worker, call, element, message, poll, say } from './api';

function action(text: string, label: string, run: () => Promise<unknown>) {
  const button = element('button', { type: 'button', 'aria-label': label }, text);
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      await run();
      await load();
    } catch (err) {
      say(message(err));
    }
    button.disabled = false;
  });
  return button;
}

type Cell = Node | string;
const row = (first: string, ...cells: (Cell | Cell[])[]) => element('tr', {}, element('th', { scope: 'row' }, first),
  ...cells.map((cell) => element('td', {}, ...[cell].flat())));

// A table is drawn again only when it changed, so that focus stays on a button.
const drawn = new Map<string, string>();
function draw<T>(id: string, items: T[], make: (item: T) => Node) {
  const looks = JSON.stringify(items);
  if (drawn.get(id) === looks) return;
  drawn.set(id, looks);
  $(id).replaceChildren(...items.map(make));
}

async function load() {
  const [queues, workers, poison] = await Promise.all([
    call<List<Queue>>('GET', '/ops/queues'), call<List<Worker>>('GET', '/ops/workers'), call<List<Poison>>('GET', '/ops/poison')]);
  const shown = queues.items.filter((q) => !q.poison || q.length > 0);
  draw('queues', shown, (q) => {
    const verb = q.paused ? 'resume' : 'pause';
    const actions = q.poison ? [] : [action(q.paused ? 'Resume' : 'Pause', `${verb} queue ${q.name}`, () => call('POST', `/ops/queues/${q.name}/${verb}`))];
    actions.push(action('Clear', `clear queue ${q.name}`, async () => {
      if (confirm(`Remove every message of ${q.name}?`)) await call('POST', `/ops/queues/${q.name}/clear`);
    }));
    return row(q.name, q.pool || '', String(q.length), q.poison ? '' : `${q.visibilitySeconds} s`, q.paused ? 'paused' : 'open', actions);
  });
  draw('workers', workers.items, (w) => row(w.name, new Date(w.lastSeenAt).toLocaleTimeString(),
    ((w.details?.busy ?? []) as { step: string; video: string }[]).map((t) => `${t.step} ${t.video}`).join(', ') || 'nothing', String(w.details?.done ?? '')));
  draw('poison', poison.items, (p) => row(p.queue, p.step || '', p.reason, new Date(p.poisonedAt).toLocaleString(),
    [action('Redrive', `redrive ${p.step || 'item'} of queue ${p.queue}`, () => call('POST', `/ops/poison/${encodeURIComponent(p.id)}/redrive`))]));
  say(workers.items.length ? '' : 'No worker was heard of.');
}

poll(2000, async () => {
  try {
    await load();
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 404) throw err;
    say('Operations are on the admin listener only.');
    return true;
  }
  return false;
});
