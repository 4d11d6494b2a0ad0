import { $, Problem, call, element, poll, say } from './api.js';

function action(text, label, run) {
  const button = element('button', { type: 'button', 'aria-label': label }, text);
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      await run();
      await load();
    } catch (err) {
      say(err.message);
    }
    button.disabled = false;
  });
  return button;
}

const row = (first, ...cells) => element('tr', {}, element('th', { scope: 'row' }, first),
  ...cells.map((cell) => element('td', {}, ...[cell].flat())));

// A table is drawn again only when it changed, so that focus stays on a button.
const drawn = new Map();
function draw(id, items, make) {
  const looks = JSON.stringify(items);
  if (drawn.get(id) === looks) return;
  drawn.set(id, looks);
  $(id).replaceChildren(...items.map(make));
}

async function load() {
  const [queues, workers, poison] = await Promise.all([call('GET', '/ops/queues'), call('GET', '/ops/workers'), call('GET', '/ops/poison')]);
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
    (w.details?.busy || []).map((t) => `${t.step} ${t.video}`).join(', ') || 'nothing', String(w.details?.done ?? '')));
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
