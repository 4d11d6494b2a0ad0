// The journey of a video below its player: every attempt and every wait of every step
// on one time axis, in pictures and in words, and what it cost.
import { $, type Video, bytes as size, call, element, message, plural, settled, type Schemas } from './api';

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
      return `${start}, lost: it began at ${seconds(from)}, nobody noted its end, and the loss was noticed at ${seconds(to)}`;
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

// Waterfall draws rows of bars in an element with role grid. One bar can be reached
// with the tab key, the others from there with the arrow keys.
class Waterfall {
  private rows: Row[] = [];
  private length = 0; // of the axis, in seconds
  private at = { row: 0, bar: 0 }; // the bar that the tab key reaches
  private readonly axis = element('div', { class: 'axis', 'aria-hidden': 'true' });
  private readonly lines: HTMLElement[] = [];

  constructor(private readonly grid: HTMLElement, axis: HTMLElement, private readonly tell: (words: string) => void) {
    axis.replaceChildren(this.axis);
    new ResizeObserver(() => this.drawAxis()).observe(axis);
    grid.addEventListener('keydown', (event) => this.key(event));
    for (const kind of ['pointerover', 'focusin']) grid.addEventListener(kind, (event) => this.point(event.target));
    grid.addEventListener('click', (event) => this.point(event.target, true));
  }

  draw(rows: Row[], length: number) {
    this.rows = rows;
    this.length = length;
    this.drawAxis();
    while (this.lines.length > rows.length) this.lines.pop()?.remove();
    rows.forEach((row, r) => this.drawRow(row, r, length || 1));
    this.settle();
  }

  private drawAxis() {
    const room = Math.max(2, Math.floor(this.axis.clientWidth / 72));
    const shown = ticks(this.length, room).filter((t) => t < this.length * 0.95 || t === 0); // one at the very end has no room
    this.axis.replaceChildren(...shown.map((t) => {
      const tick = element('span', {}, t >= 120 && t % 60 === 0 ? `${t / 60} min` : `${t} s`);
      tick.style.left = `${this.length ? t / this.length * 100 : 0}%`;
      return tick;
    }));
  }

  private drawRow(row: Row, r: number, length: number) {
    let line = this.lines[r];
    if (!line) {
      line = element('div', { role: 'row', class: 'run' }, element('div', { role: 'rowheader', class: 'run-name' }), element('div', { role: 'presentation', class: 'track' }));
      this.lines.push(line);
      this.grid.append(line);
    }
    line.dataset.state = row.item.state;
    const [name, track] = [...line.children] as [HTMLElement, HTMLElement];
    if (name.textContent !== row.name) name.textContent = row.name;
    while (track.children.length > row.bars.length) track.lastElementChild?.remove();
    row.bars.forEach((bar, b) => {
      let box = track.children[b] as HTMLElement | undefined;
      if (!box) {
        box = element('div', { role: 'gridcell', class: 'bar', tabindex: -1 });
        track.append(box);
      }
      box.dataset.kind = bar.kind;
      const label = `${marks[bar.kind]} ${bar.label}`.trim();
      if (box.textContent !== label) box.textContent = label;
      if (box.getAttribute('aria-label') !== bar.words) box.setAttribute('aria-label', bar.words);
      box.style.left = `${bar.from / length * 100}%`;
      box.style.width = `${Math.max(0, bar.to - bar.from) / length * 100}%`;
    });
  }

  private box(row: number, bar: number) {
    return this.lines[row]?.lastElementChild?.children[bar] as HTMLElement | undefined;
  }

  // settle keeps exactly one bar in the order of the tab key.
  private settle() {
    if (!this.box(this.at.row, this.at.bar)) {
      const row = Math.max(0, this.rows.findIndex((r) => r.bars.length > 0));
      this.at = { row, bar: 0 };
    }
    this.lines.forEach((line, r) => [...(line.lastElementChild?.children ?? [])].forEach((box, b) => {
      const index = r === this.at.row && b === this.at.bar ? 0 : -1;
      if ((box as HTMLElement).tabIndex !== index) (box as HTMLElement).tabIndex = index;
    }));
  }

  private point(target: EventTarget | null, focus = false) {
    if (!(target instanceof HTMLElement) || !target.classList.contains('bar')) return;
    this.tell(target.getAttribute('aria-label') ?? '');
    if (focus) target.focus();
    if (document.activeElement !== target) return;
    const row = this.lines.findIndex((line) => line.contains(target));
    this.at = { row, bar: [...(target.parentElement?.children ?? [])].indexOf(target) };
    this.settle();
  }

  private key(event: KeyboardEvent) {
    const to = this.neighbour(event.key);
    if (!to) return;
    event.preventDefault();
    this.box(to.row, to.bar)?.focus();
  }

  private neighbour(key: string) {
    const { row, bar } = this.at;
    const last = (r: number) => (this.rows[r]?.bars.length ?? 0) - 1;
    const rowFrom = (from: number, by: number) => {
      for (let r = from; r >= 0 && r < this.rows.length; r += by) if (last(r) >= 0) return { row: r, bar: Math.min(bar, last(r)) };
      return null;
    };
    switch (key) {
      case 'ArrowLeft': return bar > 0 ? { row, bar: bar - 1 } : null;
      case 'ArrowRight': return bar < last(row) ? { row, bar: bar + 1 } : null;
      case 'ArrowUp': return rowFrom(row - 1, -1);
      case 'ArrowDown': return rowFrom(row + 1, 1);
      case 'Home': return rowFrom(0, 1);
      case 'End': return rowFrom(this.rows.length - 1, -1);
      default: return null;
    }
  }
}

// The same in words: a line for each attempt, and one for each run without any.
function table(rows: Row[]) {
  return rows.flatMap((row) => {
    const { item } = row;
    const missing = item.attemptsMade - item.attempts.length;
    const line = (...cells: string[]) => element('tr', {}, element('th', { scope: 'row' }, row.name), ...cells.map((c) => element('td', {}, c)));
    if (item.attempts.length === 0) return [line(item.state, missing > 0 ? plural(missing, 'attempt') : '', '', '', '')];
    return item.attempts.map((a, i) => {
      const bar = row.bars.filter((b) => b.kind !== 'waiting')[i];
      const at = bar ? row.bars.indexOf(bar) : -1;
      const wait = at > 0 && row.bars[at - 1]?.kind === 'waiting' ? row.bars[at - 1] : undefined;
      const earlier = i === 0 && missing > 0 ? ` (${plural(missing, 'earlier one is', 'earlier ones are')} not kept)` : '';
      return line(kindWords[a.outcome] + (a.error ? `: ${a.error}` : ''), `${a.number}${earlier}`, a.worker ?? '',
        wait ? seconds(wait.to - wait.from) : '', bar ? seconds(bar.to - bar.from) : '');
    });
  });
}

const money = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumSignificantDigits: 3 });
const number = new Intl.NumberFormat('en');

const lines = (id: string, cells: string[][]) => $(id).replaceChildren(...cells.map(([first = '', ...rest]) => element('tr', {},
  element('th', { scope: 'row' }, first), ...rest.map((text) => element('td', {}, text)))));

// Where what a price is for has words of its own.
const kinds: Record<string, string> = { write: 'writes', read: 'reads', list: 'lists', delete: 'deletes' };
const services: Record<string, string> = { blob: 'Blob', queue: 'Queue', table: 'Table' };

function requestWords(kind: string) {
  const [service = '', what = ''] = kind.split('.');
  return `${services[service] ?? service} ${kinds[what] ?? what}`;
}

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

// JourneyView is the part of the page that shows it.
class JourneyView {
  private readonly waterfall = new Waterfall($('waterfall'), $('axis'), (words) => { $('journey-words').textContent = words; });
  private shown = '';

  // show draws a journey and returns how many runs it has.
  show(journey: Journey) {
    const rows = rowsOf(journey);
    const length = (Date.parse(journey.to) - Date.parse(journey.from)) / 1000;
    $('journey-picture').hidden = $('journey-table').hidden = rows.length === 0;
    if (rows.length === 0) return 0;
    $('journey-sum').textContent = summary(rows, length);
    $('journey-picture').toggleAttribute('data-long', rows.length > 18); // it scrolls
    this.waterfall.draw(rows, length);
    const now = JSON.stringify(journey.items) + (rows.some((r) => r.bars.some((b) => b.to === length)) ? length.toFixed(0) : '');
    if (now !== this.shown) $('steps').replaceChildren(...table(rows)); // one that stays can be read in peace
    this.shown = now;
    return rows.length;
  }
}

// setUp shows the journey while its part of the page is in view: that of a long film
// less often, and the cost, which changes slowly, now and then. What it returns is to be
// called whenever the video, null before it is known, may have changed.
export function setUp(id: string, video: () => Video | null) {
  const view = new JourneyView();
  let seen = false;
  let looks = 0;
  let pace = 1;
  async function look() {
    const v = video();
    if (!seen || !v || (!settled(v) && looks++ % pace > 0)) return;
    pace = 1 + Math.floor(view.show(await call<Journey>('GET', `/videos/${id}/journey`)) / 100);
    if (v.mayChange && (settled(v) || looks % 4 === 1)) showCost(await call<Cost>('GET', `/videos/${id}/cost`), !settled(v));
  }
  new IntersectionObserver((entries) => {
    seen = entries.at(-1)?.isIntersecting ?? false;
    look().catch((err) => console.info('journey', message(err)));
  }, { rootMargin: '200px' }).observe($('journey'));
  return look;
}
