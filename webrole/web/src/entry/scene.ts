// A scene at /learn/{scene}. It plays at its own speed in the process that keeps the stack,
// because leases run on while the user reads. This page asks for what is told and shows
// that at the reader's pace, as sentences and as a sequence diagram.
import { $, call, message, Problem, say, sleep, type Schemas } from '../api';
import { type Html, add, draw, html } from '../html';
import { remember } from '../played';
import { sequence } from '../sequence';

type Event = Schemas['LabSceneEvent'];
type Run = Schemas['LabSceneRun'];

const paces = [
  { text: 'at reading speed', factor: 1 },
  { text: 'twice as fast', factor: 2 },
  { text: 'four times as fast', factor: 4 },
  { text: 'without pauses', factor: Infinity },
];

let pace = 0;
let turn = 0; // counts the runs: what an earlier one still does is dropped
let paused = false;
let wake = () => {}; // ends the pause after an event
let skip = false; // show the next event at once, also while paused
let shown: Event[] = []; // of the run

// reading is how long one needs for an event, in milliseconds. A request is seen as an
// arrow, and read by those who want to know more.
const reading = (e: Event) => (e.kind === 'wire' ? 400 : 500 + e.text.split(' ').length * 150);

// settle says whether the reader guessed right, at the claim that decides it. A scene about
// the reader's own table may not make that claim: then at the end.
function settle(e: Event) {
  const guess = $('guess');
  const { claim, right } = guess.dataset;
  const chosen = guess.querySelector<HTMLInputElement>('input:checked');
  const decides = e.kind === 'end' || (e.kind === 'claim' && !!claim && e.text.includes(claim));
  if (!decides || !chosen || guess.dataset.settled) return;
  guess.dataset.settled = 'yes';
  const text = (value?: string) => guess.querySelector(`input[value="${value}"]`)?.parentElement?.textContent?.trim() ?? '';
  add($('told'), html`<li class="note guessed">${chosen.value === right ? `You were right: ${text(right)}.` : `You said: ${text(chosen.value)}. It is: ${text(right)}.`}</li>`);
}

const lines = (headers: { name: string; value: string }[], body: string) =>
  [...headers.map((h) => `${h.name}: ${h.value}`), ...(body ? ['', body] : [])].join('\n');

const exchange = (x: Schemas['LabExchange']) => [
  `${x.method} ${x.target}\n${lines(x.sent, x.body)}`, x.status ? `${x.status}\n${lines(x.received, x.answer)}` : `no answer: ${x.answer}`,
  ...(x.inside ? [`the message, decoded:\n${x.inside}`] : []),
].map((text) => html`<pre>${text}</pre>`);

function item(e: Event): Html {
  const at = html`<span class="at">${e.seconds.toFixed(2)} s </span>`;
  switch (e.kind) {
    case 'wire': {
      // That a row is not there yet is an answer like others.
      const refused = !e.wire?.status || (e.wire.status >= 400 && !(e.wire.status === 404 && e.wire.method === 'GET'));
      return html`<li class="wire"><details><summary>${at}${`${e.from} → ${e.to}: ${e.text}`} ← <span class="${refused && 'refused'}">${e.reply}</span></summary>${e.wire && exchange(e.wire)}</details></li>`;
    }
    case 'act':
      return html`<li class="act">${at}${`${e.from} ${e.text}`}</li>`;
    case 'claim':
      return html`<li class="claim ${!e.holds && 'false'}">${e.text}</li>`;
    default:
      return html`<li class="${e.kind}">${e.text}</li>`;
  }
}

const drawSequence = () => draw($('sequence'), sequence(($('sequence').dataset.cast ?? '').split('|'), shown));

function show(e: Event) {
  const told = $('told');
  add(told, item(e));
  const line = told.lastElementChild;
  told.hidden = false;
  settle(e);
  shown.push(e);
  drawSequence();
  $('sequence').scrollTop = $('sequence').scrollHeight;
  line?.scrollIntoView({ block: 'nearest' });
}

const go = $<HTMLButtonElement>('go');
const next = $<HTMLButtonElement>('next');
const again = $<HTMLButtonElement>('again');

// read waits for as long as the reader wants to look at an event.
async function read(e: Event) {
  const end = performance.now() + reading(e) / paces[pace]!.factor;
  while (!skip && (paused || performance.now() < end)) {
    await Promise.race([sleep(50), new Promise<void>((done) => { wake = done; })]);
  }
  skip = false;
}

// answers are those to the scene's questions; nothing where it has none, or the reader
// has not answered all of them.
function answers(): Record<string, string> | undefined {
  const form = document.querySelector<HTMLFormElement>('#questions');
  if (!form) return undefined;
  const chosen = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
  return Object.keys(chosen).length === form.querySelectorAll('fieldset').length ? chosen : undefined;
}

// patience is how many seconds the page goes on asking when it gets no answer.
const patience = 30;

// ask returns what happened in a run after an event. The scene goes on without this page,
// and its events are kept, so a connection that breaks loses nothing.
async function ask(run: string, after: number): Promise<Run> {
  for (let left = patience; ; left--) {
    try {
      return await call<Run>('GET', `/lab/scene-runs/${run}?after=${after}`);
    } catch (err) {
      if (left === 0 || (err instanceof Problem && err.status < 500)) throw err;
      say('No answer. Asking again');
      await sleep(1000);
    }
  }
}

// The address names the run, so that a page that is loaded again shows the same one.
const named = () => new URLSearchParams(location.hash.slice(1)).get('run');
const name = (run: string) => history.replaceState(null, '', run ? `#run=${run}` : location.pathname);

// play shows a run from its beginning, or begins one.
async function play(run?: string) {
  const mine = ++turn;
  paused = skip = false;
  clear();
  go.textContent = 'Pause';
  go.hidden = next.disabled = false;
  again.disabled = true;
  try {
    if (!run) {
      run = (await call<{ run: string }>('POST', `/lab/scenes/${go.dataset.scene}`, { body: { answers: answers() } })).run;
      name(run);
    }
    for (let seen = 0, over = false; !over && mine === turn;) {
      const { events } = await ask(run, seen);
      for (const e of events) {
        if (mine !== turn) return;
        show(e);
        seen = e.number;
        over = e.kind === 'end';
        say(over ? e.text : 'Playing');
        if (over) remember(go.dataset.scene ?? '');
        if (!over) await read(e);
      }
      if (events.length === 0) say('Waiting for what happens next');
    }
  } catch (err) {
    name(''); // another try begins a new run
    say(message(err));
  }
  finish();
}

// clear shows who takes part, before anything happened.
function clear() {
  shown = [];
  drawSequence();
  $('told').replaceChildren();
  delete $('guess').dataset.settled;
}

function finish() {
  const focused = document.activeElement === go || document.activeElement === next;
  go.hidden = next.disabled = true;
  again.disabled = false;
  $('after').hidden = false;
  if (focused) again.focus(); // a hidden button would lose it
}

go.addEventListener('click', () => {
  if (turn === 0) {
    void play();
    return;
  }
  paused = !paused;
  go.textContent = paused ? 'Go on' : 'Pause';
});
// Enter on an answer would load the page anew.
document.querySelector('#questions')?.addEventListener('submit', (e) => { e.preventDefault(); });
next.addEventListener('click', () => {
  skip = true;
  wake();
});
$('faster').addEventListener('click', () => {
  pace = (pace + 1) % paces.length;
  $('pace').textContent = paces[pace]!.text;
  skip = paces[pace]!.factor === Infinity && !paused;
});
again.addEventListener('click', () => void play());
clear();
const run = named();
if (run) void play(run);
