import { $, Problem, type VideoPage, call, during, message, say } from '../api';
import { Facts } from '../board/facts';
import { type BoardEvent, Model, hue, short } from '../board/model';
import { Picture, tokenOf } from '../board/picture';
import { drawTables } from '../board/tables';
import { Words } from '../board/words';
import { draw, html, onPress, rove } from '../html';

const model = new Model();
const words = new Words($('log'), $('voice'));
const facts = new Facts(model);
const tables = $<HTMLDetailsElement>('tables');
let held = false; // the picture stands still; the model goes on

const act = (path: string, done: string) => call('POST', path).then(() => say(done), (err) => say(message(err)));

// ask puts a question before something that cannot be taken back.
function ask(question: string, yes: string): Promise<boolean> {
  const dialog = $<HTMLDialogElement>('ask');
  $('ask-text').textContent = question;
  $('ask-yes').textContent = yes;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener('close', () => answer(dialog.returnValue === 'yes'), { once: true });
  });
}

async function pause(name: string, button: HTMLButtonElement) {
  const paused = model.queues.get(name)?.paused;
  await during(button, () => act(`/ops/queues/${name}/${paused ? 'resume' : 'pause'}`, paused ? `Queue ${name} is resumed.` : `Queue ${name} is paused. What is in progress is finished.`));
  button.focus();
}

async function clear(name: string) {
  const length = model.queues.get(name)?.lanes.reduce((sum, lane) => sum + lane.length, 0);
  const what = !length ? 'every message' : length === 1 ? 'the one message' : `all ${length} messages`;
  const sure = await ask(`Remove ${what} of ${name}? That cannot be undone. Work that a row promises comes back by itself; other work does not.`, 'Clear');
  if (sure) await act(`/ops/queues/${name}/clear`, `Queue ${name} is cleared.`);
}

async function redrive(id: string) {
  const poison = model.poison.find((p) => p.id === id);
  const what = `${poison?.step || 'item'} of queue ${poison?.queue}`;
  const sure = await ask(`Put ${what} back on its queue, with all its attempts? Unless what made it fail has changed, it fails again.`, 'Redrive');
  if (sure) await act(`/ops/poison/${encodeURIComponent(id)}/redrive`, `${what} is on its queue again.`);
}

function follow(id: string) {
  facts.show(id);
  picture.follow(id);
  if (id) $('follow').focus();
}

onPress({ pause, clear, redrive, follow });

const picture = new Picture(model);

const redrawTables = () => { if (tables.open && live) drawTables(model); };

// --- What is above the picture ---

function sums() {
  const { scale } = model;
  const workers = [...model.workers.values()];
  const silent = workers.filter((w) => w.silent).length;
  const sum = {
    waiting: [...model.queues.values()].flatMap((q) => q.lanes).reduce((sum, lane) => sum + lane.visible, 0),
    running: [...model.tokens.values()].filter((t) => t.place.kind === 'slot').length,
    workers: model.trouble && silent ? 'unknown' : `${workers.length - silent}${silent ? ` + ${silent} silent` : ''}`,
    poison: model.poison.length,
    wanted: scale ? `${scale.wanted} of ${scale.floor}–${scale.ceiling}` : '–',
    reads: model.samples.length ? `${model.samples.at(-1)?.readsPerSecond.toFixed(1)}/s` : '–',
  };
  for (const [name, value] of Object.entries(sum)) $(`sum-${name}`).textContent = String(value);
  $('scale').textContent = scale ? `${scale.wanted === 1 ? '1 worker is' : `${scale.wanted} workers are`} wanted: ${scale.why}.` : '';
}

const legendMost = 24;

function legend() {
  const videos = new Map<string, number>();
  for (const t of model.tokens.values()) {
    if (t.video) videos.set(t.video, (videos.get(t.video) ?? 0) + 1);
  }
  const shown = [...videos].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, legendMost).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  draw($('legend'), html`${shown.map(([id]) => html`<li id="legend-${id}"><a href="/watch/${encodeURIComponent(id)}"><span class="mark" aria-hidden="true" data-style="--hue:${hue(id)}">${short(id)}</span> ${model.title(id) || id}</a></li>`)}
    ${videos.size > shown.length && html`<li class="soft">and ${videos.size - shown.length} more</li>`}`);
}

// --- Drawing ---

let due = false; // one frame is asked for
let drawnAt = 0;

// redraw draws at most once a frame, whatever comes in.
function redraw() {
  if (due || held) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    picture.draw(drawnAt > 0);
    drawnAt = performance.now();
    sums();
    legend();
    facts.draw();
    settle();
    redrawTables();
  });
}

// The keyboard has one stop for all tokens, and arrows between them.
const settle = rove($('board'), '.token[data-id]', '.lane, .worker, .poisoned');

// Rings run out in small steps.
setInterval(() => {
  if (!document.hidden && live && (model.expire() || performance.now() - drawnAt >= 450)) redraw();
}, 500);

// --- The stream ---

let live = false;

function hear(event: BoardEvent) {
  const happened = model.apply(event);
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

const again = 3000; // ms
let stream: EventSource | null = null;

// listen looks while the page is visible: a hidden board costs nothing. EventSource comes
// back by itself after a broken connection, but not after an answer that is no stream.
function listen() {
  if (stream || document.hidden) return;
  const mine = stream = new EventSource('/api/v1/ops/events');
  mine.addEventListener('snapshot', (e: MessageEvent<string>) => hear(JSON.parse(e.data) as BoardEvent));
  mine.addEventListener('error', async () => {
    if (mine !== stream) return;
    live = false;
    $('link').textContent = 'not connected';
    $('link').dataset['state'] = 'away';
    if (mine.readyState !== EventSource.CLOSED || await refused() || mine !== stream) return;
    stream = null;
    setTimeout(listen, again);
  });
}
listen();

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return listen();
  stream?.close();
  stream = null;
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
  draw($('film'), html`<iframe src="/embed/${film.id}#play" title="${film.title}" allow="autoplay; fullscreen"></iframe>`);
  $('film').hidden = false;
}
if (new URLSearchParams(location.search).get('view') === 'talk') showPresenterView().catch((err) => say(message(err)));

function unfollow() {
  const { id } = facts;
  follow('');
  tokenOf(id)?.focus();
}
$('follow-close').addEventListener('click', unfollow);
$('follow').addEventListener('keydown', (e) => { if (e.key === 'Escape') unfollow(); });
