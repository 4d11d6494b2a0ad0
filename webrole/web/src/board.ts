import { $, type BoardEvent, type BoardQueue, type Poison, Problem, type VideoPage, call, element, message, say } from './api';
import { ask } from './board/ask';
import { hue, short } from './board/colour';
import { Facts } from './board/facts';
import { Model } from './board/model';
import { Picture } from './board/picture';
import { follow } from './board/stream';
import { drawTables } from './board/tables';
import { Words } from './board/words';

const model = new Model();
const words = new Words($('log'), $('voice'));
const facts = new Facts(model);
const tables = $<HTMLDetailsElement>('tables');
let held = false; // the picture stands still; the model goes on

async function act(path: string, done: string) {
  try {
    await call('POST', path);
    say(done);
  } catch (err) {
    say(message(err));
  }
}

async function pause({ name, paused }: BoardQueue, button: HTMLButtonElement) {
  button.disabled = true;
  await act(`/ops/queues/${name}/${paused ? 'resume' : 'pause'}`, paused ? `Queue ${name} is resumed.` : `Queue ${name} is paused. What is in progress is finished.`);
  button.disabled = false;
  button.focus();
}

async function clear(name: string) {
  const length = model.queues.get(name)?.lanes.reduce((sum, lane) => sum + lane.length, 0);
  const what = !length ? 'every message' : length === 1 ? 'the one message' : `all ${length} messages`;
  const sure = await ask(`Remove ${what} of ${name}? That cannot be undone. Work that a row promises comes back by itself; other work does not.`, 'Clear');
  if (sure) await act(`/ops/queues/${name}/clear`, `Queue ${name} is cleared.`);
}

async function redrive(id: string, what: string) {
  const sure = await ask(`Put ${what} back on its queue, with all its attempts? Unless what made it fail has changed, it fails again.`, 'Redrive');
  if (sure) await act(`/ops/poison/${encodeURIComponent(id)}/redrive`, `${what} is on its queue again.`);
}

const actions = {
  pause: (queue: BoardQueue, button: HTMLButtonElement) => { void pause(queue, button); },
  clear: (name: string) => { void clear(name); },
  redrive: (p: Poison) => { void redrive(p.id, `${p.step || 'item'} of queue ${p.queue}`); },
  follow: (id: string) => {
    facts.show(id);
    picture.mark(id);
    $('follow').focus();
  },
};

const picture = new Picture(model, actions, $('board-queues'), $('board-workers'), $('board-gone'), $('board-poison'), $('air'));

const redrawTables = () => { if (tables.open && live) drawTables(model, actions); };

// --- What is above the picture ---

function sums() {
  let waiting = 0, running = 0;
  for (const q of model.queues.values()) {
    for (const l of q.lanes) waiting += l.visible;
  }
  for (const t of model.tokens.values()) {
    if (t.place.kind === 'slot') running++;
  }
  const workers = [...model.workers.values()];
  const silent = workers.filter((w) => w.silent).length;
  $('sum-waiting').textContent = String(waiting);
  $('sum-running').textContent = String(running);
  $('sum-workers').textContent = model.trouble && silent ? 'unknown' : `${workers.length - silent}${silent ? ` + ${silent} silent` : ''}`;
  $('sum-poison').textContent = String(model.poison.length);
  const scale = model.scale;
  $('sum-wanted').textContent = scale ? `${scale.wanted} of ${scale.floor}–${scale.ceiling}` : '–';
  $('scale').textContent = scale ? `${scale.wanted === 1 ? '1 worker is' : `${scale.wanted} workers are`} wanted: ${scale.why}.` : '';
  const reads = model.samples.at(-1)?.readsPerSecond;
  $('sum-reads').textContent = reads === undefined ? '–' : `${reads.toFixed(1)}/s`;
}

const legendMost = 24;

function legend() {
  const videos = new Map<string, number>();
  for (const t of model.tokens.values()) {
    if (t.video) videos.set(t.video, (videos.get(t.video) ?? 0) + 1);
  }
  const shown = [...videos].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, legendMost).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const looks = JSON.stringify([shown.map(([id]) => [id, model.title(id)]), videos.size]);
  const list = $('legend');
  if (list.dataset['looks'] === looks) return;
  list.dataset['looks'] = looks;
  list.replaceChildren(...shown.map(([id]) => {
    const mark = element('span', { class: 'mark', 'aria-hidden': true }, short(id));
    mark.style.setProperty('--hue', String(hue(id)));
    return element('li', {}, element('a', { href: `/watch/${encodeURIComponent(id)}` }, mark, ' ', model.title(id) || id));
  }), ...(videos.size > shown.length ? [element('li', { class: 'soft' }, `and ${videos.size - shown.length} more`)] : []));
}

// --- Drawing ---

let due = false; // one frame is asked for
let sampled = false;

// redraw draws at most once a frame, whatever comes in.
function redraw() {
  if (due || held) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    picture.draw(drawnOnce);
    drawnOnce = true;
    drawnAt = performance.now();
    if (sampled) picture.samples();
    sampled = false;
    sums();
    legend();
    facts.draw();
    rove();
    redrawTables();
  });
}
let drawnOnce = false;
let drawnAt = 0;

// Rings run out in small steps; a loop that measures nothing is enough for that.
setInterval(() => {
  if (document.hidden || held || !live) return;
  if (model.expire()) redraw();
  if (performance.now() - drawnAt < 450) return; // drawing lets them run out too
  picture.tick();
  facts.draw();
}, 500);

// --- The stream ---

let live = false;

function hear(event: BoardEvent) {
  const newest = model.samples.at(-1)?.at;
  const happened = model.apply(event);
  sampled ||= model.samples.at(-1)?.at !== newest;
  if (!live) {
    live = true;
    $('board').hidden = false;
    $('board').classList.remove('coming');
    $('hold').hidden = false;
    say('');
  }
  $('link').textContent = model.trouble ? `storage is away: ${model.trouble}` : 'live';
  $('link').dataset['state'] = model.trouble ? 'away' : 'live';
  words.say(happened, Date.parse(event.at));
  if (happened.length) $('headline').textContent = happened.at(-1) ?? '';
  redraw();
}

// refused says why there is no stream. EventSource does not tell, so something else of the
// operators' is asked for; it returns whether there is no reason to try again.
async function refused(): Promise<boolean> {
  if ($('board').classList.contains('coming')) $('board').hidden = true; // what was shown once stays
  try {
    await call('GET', '/ops/workers');
    say('The picture does not come through. The board as tables, /board/tables, does not need it.');
  } catch (err) {
    if (err instanceof Problem && err.status === 404) return true; // not on this listener, and the page says so
    say(message(err));
  }
  return false;
}

follow('/api/v1/ops/events', {
  event: hear,
  down() {
    live = false;
    $('link').textContent = 'not connected';
    $('link').dataset['state'] = 'away';
  },
  refused,
});

tables.addEventListener('toggle', redrawTables);

$('hold').addEventListener('click', () => {
  held = !held;
  $('hold').setAttribute('aria-pressed', String(held));
  if (!held) redraw();
});

// What is broken with the lab belongs to what happened.
document.addEventListener('lab-act', (event) => {
  const text = (event as CustomEvent<string>).detail;
  words.say([text], Date.now());
  $('headline').textContent = text;
});

// The presenter's view (?view=talk) can be read from the back of a room: what is in use,
// large, the latest event as a sentence, and the newest film in a corner.
async function showPresenterView() {
  document.body.classList.add('talk');
  $('headline').hidden = false;
  $('talk').textContent = 'Full board';
  $<HTMLAnchorElement>('talk').href = '/board';
  const { items } = await call<VideoPage>('GET', '/videos?limit=24');
  const film = items.find((v) => v.playable);
  if (!film) return;
  $('film').replaceChildren(element('iframe', { src: `/embed/${film.id}#play`, title: film.title, allow: 'autoplay; fullscreen' }));
  $('film').hidden = false;
}
if (new URLSearchParams(location.search).get('view') === 'talk') showPresenterView().catch((err) => say(message(err)));

// --- The keyboard: one stop for all tokens, arrows between them ---

const board = $('board');

const inOrder = () => [...board.querySelectorAll<HTMLButtonElement>('.token:not(.leaving)')];

function rove() {
  const all = inOrder();
  const current = all.filter((t) => t.tabIndex === 0);
  if (current.length === 1) return;
  for (const t of current) t.tabIndex = -1;
  const first = all[0];
  if (first) first.tabIndex = 0;
}

board.addEventListener('focusin', (e) => {
  if (!(e.target instanceof HTMLButtonElement) || !e.target.classList.contains('token')) return;
  for (const t of inOrder()) t.tabIndex = t === e.target ? 0 : -1;
});

board.addEventListener('keydown', (e) => {
  const at = e.target;
  if (!(at instanceof HTMLButtonElement) || !at.classList.contains('token')) return;
  const all = inOrder();
  const i = all.indexOf(at);
  const box = (t: Element | undefined) => t?.closest('.lane, .worker, .poisoned');
  let to: HTMLButtonElement | undefined;
  switch (e.key) {
    case 'ArrowRight': to = all[i + 1]; break;
    case 'ArrowLeft': to = all[i - 1]; break;
    case 'ArrowDown': to = all.slice(i).find((t) => box(t) !== box(at)); break;
    case 'ArrowUp': to = all.slice(0, i).reverse().find((t) => box(t) !== box(at)); break;
    case 'Home': to = all[0]; break;
    case 'End': to = all.at(-1); break;
    default: return;
  }
  e.preventDefault();
  to?.focus();
});

function unfollow() {
  const { id } = facts;
  facts.show('');
  picture.mark('');
  picture.focusOn(id);
}
$('follow-close').addEventListener('click', unfollow);
$('follow').addEventListener('keydown', (e) => { if (e.key === 'Escape') unfollow(); });
