// The journey of a video below its player: every attempt and every wait of every step
// on one time axis, in pictures and in words, and what it cost.
import { $, type Video, bytes as size, call, message, plural, settled, type Schemas } from './api';
import { draw, html, row as tableRow, rove } from './html';

type Journey = Schemas['Journey'];
type Cost = Schemas['Cost'];
type Item = Schemas['JourneyItem'];
type Attempt = Schemas['Attempt'];

type Kind = 'waiting' | Attempt['outcome'];

// One bar of the waterfall. Times are in seconds from the start of the axis.
interface Bar { kind: Kind; from: number; to: number; label: string; words: string }

interface Row { name: string; item: Item; bars: Bar[] }

const kindWords: Record<Kind, string> = {
  waiting: 'waiting', running: 'running', done: 'done', failed: 'failed for good',
  retry: 'failed, tried again', released: 'interrupted', lost: 'lost',
};

// A mark beside the colour, for those who do not see it.
const marks: Record<Kind, string> = { waiting: '', running: '▸', done: '✓', failed: '✗', retry: '↻', released: '‖', lost: '?' };

const invisible = 0.02; // seconds: a shorter wait is none

const seconds = (s: number) => (s >= 120 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${s.toFixed(s < 9.95 ? 1 : 0)} s`);

// Turns what the API tells into rows of bars.
function rowsOf(journey: Journey): Row[] {
  const zero = Date.parse(journey.from);
  const at = (time: string) => (Date.parse(time) - zero) / 1000;
  const end = at(journey.to);
  const runs = new Map<string, number>();
  for (const { step } of journey.items) runs.set(step, (runs.get(step) ?? 0) + 1);
  return journey.items.map((item) => {
    const name = (runs.get(item.step) ?? 0) > 1 ? `${item.step} ${item.index + 1}` : item.step;
    const bars: Bar[] = [];
    const wait = (from: number, to: number, still = false) => {
      if (to - from < invisible) return;
      const verb = still ? 'has been waiting for' : 'waited';
      bars.push({ kind: 'waiting', from, to, label: '', words: `${name} ${verb} ${seconds(to - from)}, from ${seconds(from)}${still ? '' : ` to ${seconds(to)}`}` });
    };
    for (const a of item.attempts) {
      const from = at(a.startedAt);
      const to = a.endedAt ? at(a.endedAt) : end;
      if (a.queuedAt) wait(at(a.queuedAt), from);
      bars.push({ kind: a.outcome, from, to, label: a.worker ?? '', words: attemptWords(name, a, from, to) });
    }
    if (item.state === 'queued' && item.waitingSince) wait(at(item.waitingSince), end, true);
    return { name, item, bars };
  });
}

function attemptWords(name: string, a: Attempt, from: number, to: number) {
  const who = a.worker ? ` by ${a.worker}` : '';
  const start = `${name}, attempt ${a.number}${who}`;
  const error = a.error ? `: ${a.error}` : '';
  switch (a.outcome) {
    case 'running':
      return `${start}, running for ${seconds(to - from)}, since ${seconds(from)}`;
    case 'lost':
      return `${start}, lost: it began at ${seconds(from)}, its end was not noted, and the loss was noticed at ${seconds(to)}`;
    default:
      return `${start}, ${kindWords[a.outcome]} after ${seconds(to - from)}, from ${seconds(from)} to ${seconds(to)}${error}`;
  }
}

// What there is to say about all of it.
function summary(rows: Row[], length: number) {
  const attempts = rows.flatMap((r) => r.item.attempts);
  const workers = new Set(attempts.map((a) => a.worker).filter(Boolean));
  const count = (outcome: Attempt['outcome']) => attempts.filter((a) => a.outcome === outcome).length;
  const made = rows.filter((r) => r.item.state === 'done').length;
  const by = workers.size ? `, by ${plural(workers.size, 'worker')}` : ''; // whose names are not shown to all
  const parts = [`${made} of ${plural(rows.length, 'step')} done in ${seconds(length)}${by}`];
  if (count('lost')) parts.push(`${plural(count('lost'), 'attempt')} lost and made again`);
  if (count('retry')) parts.push(`${plural(count('retry'), 'attempt')} failed and tried again`);
  return `${parts.join('; ')}.`;
}

const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];

// Where the axis has marks: round numbers, as many as have room.
function ticks(length: number, room: number) {
  const step = steps.find((s) => length / s <= room) ?? length / room;
  const at = [];
  for (let t = 0; t <= length; t += step) at.push(t);
  return at;
}

// axis is what is above the bars.
function axis(length: number, room: number) {
  const shown = ticks(length, room).filter((t) => t < length * 0.95 || t === 0); // one at the very end has no room
  return html`${shown.map((t) => html`<span data-style="left:${length ? t / length * 100 : 0}%">${t >= 120 && t % 60 === 0 ? `${t / 60} min` : `${t} s`}</span>`)}`;
}

const line = (row: Row, length: number) => html`<div role="row" class="run" data-state="${row.item.state}">
  <div role="rowheader" class="run-name">${row.name}</div><div role="presentation" class="track">${row.bars.map((bar) => html`<div role="gridcell" class="bar"
    tabindex="-1" data-kind="${bar.kind}" aria-label="${bar.words}" data-style="left:${bar.from / length * 100}%;width:${Math.max(0, bar.to - bar.from) / length * 100}%">${`${marks[bar.kind]} ${bar.label}`.trim()}</div>`)}</div></div>`;

// The same in words: a line for each attempt, and one for each run without any.
function table(rows: Row[]) {
  return rows.flatMap(({ name, item, bars }) => {
    const missing = item.attemptsMade - item.attempts.length;
    if (item.attempts.length === 0) return [tableRow(name, [item.state, missing > 0 && plural(missing, 'attempt'), '', '', ''])];
    return item.attempts.map((a, i) => {
      const bar = bars.filter((b) => b.kind !== 'waiting')[i];
      const before = bar && bars[bars.indexOf(bar) - 1];
      const earlier = i === 0 && missing > 0 ? ` (${plural(missing, 'earlier one is', 'earlier ones are')} not kept)` : '';
      return tableRow(name, [kindWords[a.outcome] + (a.error ? `: ${a.error}` : ''), `${a.number}${earlier}`, a.worker,
        before?.kind === 'waiting' && seconds(before.to - before.from), bar && seconds(bar.to - bar.from)]);
    });
  });
}

const money = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumSignificantDigits: 3 });
const number = new Intl.NumberFormat('en');

const lines = (id: string, cells: string[][]) => draw($(id), html`${cells.map(([first, ...rest]) => tableRow(first, rest))}`);

// requestWords are "Blob writes" for "blob.write".
const requestWords = (kind: string) => `${kind.charAt(0).toUpperCase()}${kind.slice(1).replace('.', ' ')}s`;

function showCost(cost: Cost, open: boolean) {
  const requests = cost.requests.reduce((sum, r) => sum + r.count, 0);
  $('cost').hidden = cost.attemptsCounted === 0 && cost.attemptsNotCounted === 0;
  $('cost-sum').textContent = `${open ? 'Cost so far' : 'Cost'}: ${money.format(cost.dollars.total)} for ${plural(requests, 'storage request')}, `
    + `${size(cost.bytesFromStorage)} read, ${size(cost.bytesToStorage)} written and ${seconds(cost.cpuSeconds)} of processor time`;
  lines('cost-lines', [
    ...cost.requests.map((r) => [requestWords(r.kind), number.format(r.count), `${money.format(r.dollarsPer10000)} for 10,000`, money.format(r.dollars)]),
    ['Bytes to storage', size(cost.bytesToStorage), '', ''],
    ['Bytes from storage', size(cost.bytesFromStorage), '', ''],
    ['Bytes, both ways', '', '', money.format(cost.dollars.bytes)],
    ['Processor time of ffmpeg', seconds(cost.cpuSeconds), '', money.format(cost.dollars.cpu)],
    ['All', '', '', money.format(cost.dollars.total)],
  ]);
  lines('cost-steps', cost.steps.map((s) => [s.step, number.format(s.attempts), number.format(s.requests), seconds(s.cpuSeconds), money.format(s.dollars)]));
  const gone = cost.attemptsNotCounted;
  $('cost-missing').textContent = gone ? `${plural(gone, 'attempt')} ${gone === 1 ? 'is' : 'are'} not counted: lost with the worker.` : '';
}

// view shows how a video was made. What it returns draws a journey, and returns how many
// runs that has.
function view() {
  const tell = (target: EventTarget | null) => {
    const bar = (target as Element).closest<HTMLElement>('.bar');
    if (bar) $('journey-words').textContent = bar.getAttribute('aria-label');
    return bar;
  };
  const grid = $('waterfall');
  for (const kind of ['pointerover', 'focusin']) grid.addEventListener(kind, (event) => tell(event.target));
  grid.addEventListener('click', (event) => tell(event.target)?.focus());
  const settle = rove(grid, '.bar', '.run');
  let length = 0; // of the axis, in seconds
  const drawAxis = () => draw($('axis'), axis(length, Math.max(2, Math.floor($('axis').clientWidth / 72))));
  new ResizeObserver(drawAxis).observe($('axis'));

  return (journey: Journey) => {
    const rows = rowsOf(journey);
    length = (Date.parse(journey.to) - Date.parse(journey.from)) / 1000;
    $('journey-picture').hidden = $('journey-table').hidden = rows.length === 0;
    if (rows.length === 0) return 0;
    $('journey-sum').textContent = summary(rows, length);
    $('journey-picture').toggleAttribute('data-long', rows.length > 18); // it scrolls
    drawAxis();
    draw(grid, html`${rows.map((row) => line(row, length || 1))}`);
    settle();
    draw($('steps'), html`${table(rows)}`);
    return rows.length;
  };
}

// setUp shows the journey while its part of the page is in view: that of a long film
// less often, and the cost, which changes slowly, now and then. What it returns is to be
// called whenever the video, which may not be known yet, may have changed.
export function setUp(id: string, video: () => Video | undefined) {
  const show = view();
  let seen = false;
  let looks = 0;
  let pace = 1;
  async function look() {
    const v = video();
    if (!seen || !v || (!settled(v) && looks++ % pace > 0)) return;
    pace = 1 + Math.floor(show(await call<Journey>('GET', `/videos/${id}/journey`)) / 100);
    if (v.mayChange && (settled(v) || looks % 4 === 1)) showCost(await call<Cost>('GET', `/videos/${id}/cost`), !settled(v));
  }
  new IntersectionObserver((entries) => {
    seen = entries.at(-1)?.isIntersecting ?? false;
    look().catch((err) => console.info('journey', message(err)));
  }, { rootMargin: '200px' }).observe($('journey'));
  return look;
}
