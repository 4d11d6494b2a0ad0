// The lab on the board: buttons for the faults that the stack can inject.
// (docs/lab.md). The section is in the page where there is a lab, and shows itself
// when that answers. Results are said in words; nothing asks for confirmation,
// because everything heals.
import { $, Problem, call, message, poll, say, type Schemas } from '../api';
import { type Html, drawAll, html, onPress } from '../html';

type Lab = Schemas['Lab'];
type LabWorker = Schemas['LabWorker'];

const acting = new Set<string>(); // ids of buttons whose act is not done yet
let lab: Lab | null = null;

const tell = (text: string) => say(text, 'lab-said');

// act does something, says what came of it, and shows what the bench looks like now.
async function act(button: HTMLElement | null, fault: string, body: object) {
  const id = button?.id ?? '';
  acting.add(id);
  show();
  try {
    const done = await call<Schemas['LabDone']>('POST', `/lab/${fault}`, { body });
    tell(done.says);
    document.dispatchEvent(new CustomEvent('lab-act', { detail: done.says }));
    await load();
  } catch (err) {
    tell(message(err));
  }
  acting.delete(id);
  show();
  if (document.activeElement === document.body) document.getElementById(id)?.focus(); // a disabled button loses it
}

const seconds = (until: string) => Math.max(0, Math.ceil((Date.parse(until) - Date.now()) / 1000));

const texts: Record<LabWorker['state'], string> = {
  running: 'running', starting: 'starting', frozen: 'frozen', stopping: 'giving its messages back', stopped: 'stopped',
};

// The faults of a worker: what its button says, what more a screen reader is told, and
// what is asked of the server.
const faults = [
  { text: 'Kill', label: 'Kill', fault: 'kill', more: {} },
  { text: 'Freeze', label: 'Freeze beyond its lease:', fault: 'freeze', more: {} },
  { text: 'Stop', label: 'Stop and start again:', fault: 'stop', more: {} },
  { text: 'Remove', label: 'Remove', fault: 'stop', more: { stay: true } },
];

const button = (press: string, name: string, text: string, label: string) => {
  const id = `${press}-${name}`;
  return html`<button type="button" id="${id}" data-press="${press}" data-of="${name}" aria-label="${label}" ${acting.has(id) && 'disabled'}>${text}</button>`;
};

function card(w: LabWorker): Html {
  const wakes = w.until ? `, wakes in ${seconds(w.until)} s` : '';
  const process = w.pid ? ` · process ${w.pid}` : '';
  return html`<div id="lab-card-${w.name}" class="lab-worker" role="group" aria-label="${w.name}" data-worker="${w.name}" data-state="${w.state}" data-pid="${w.pid}">
    <strong>${w.name}</strong><span class="soft">${texts[w.state]}${wakes}${process}</span><span class="row">${w.state === 'stopped'
      ? button('lab-add', w.name, 'Bring back', `Bring back ${w.name} or another that is stopped`)
      : faults.map(({ text, label }) => button(`lab-${text}`, w.name, text, `${label} ${w.name}`))}</span></div>`;
}

// place is where a worker's buttons are: in its card of the picture, whose name ends with
// the process.
const place = (w: LabWorker) => (w.pid && document.querySelector(`#board-workers [data-worker$="-${w.pid}"]:not([hidden]) .lab-place`)) || $('lab-workers');

function showWorkers(workers: LabWorker[]) {
  const places = [$('lab-workers'), ...document.querySelectorAll('.lab-place')];
  drawAll(places.map((element) => [element, html`${workers.filter((w) => place(w) === element).map(card)}`]));
}

let newest = 0; // when the newest duplicate was made; those of before are no news

function more({ duplicateUntil, duplicates: [last], burst }: Lab) {
  const parts = [];
  if (duplicateUntil) parts.push(`the next message within ${seconds(duplicateUntil)} s is delivered twice`);
  if (last) parts.push(`delivered twice: ${last.step} of video ${last.subject}, queue ${last.queue}`);
  if (burst) parts.push(`burst: ${burst.ids.length} of ${burst.videos} uploaded${burst.failed ? `, ${burst.failed} failed: ${burst.error ?? ''}` : ''}`);
  return parts.join(' · ');
}

function tellDuplicate({ duplicates: [last] }: Lab) {
  const at = last ? Date.parse(last.at) : 1;
  if (last && newest && at > newest) tell(`A message of queue ${last.queue} (${last.step} of video ${last.subject}) was delivered twice.`);
  newest = Math.max(newest, at);
}

function show() {
  if (!lab) return;
  showWorkers(lab.workers);
  $('lab-faults').textContent = lab.storage.map((f) =>
    `${f.service}: ${f.fault.replace('_', ' ')}, ${Math.round(100 * f.share)} % for ${seconds(f.until)} s more, ${f.met} requests met it`).join(' · ');
  $('lab-more').textContent = more(lab);
  for (const id of ['lab-add', 'lab-duplicate', 'lab-burst', 'lab-disturb']) {
    $<HTMLButtonElement>(id).disabled = acting.has(id) || (id === 'lab-burst' && (lab.burst?.running ?? false));
  }
}

async function load() {
  lab = await call<Lab>('GET', '/lab');
  show();
  tellDuplicate(lab);
  if ($('lab').hidden) {
    $('lab').hidden = false;
    if (location.hash === '#lab') $('lab').scrollIntoView(); // it was not there yet when the browser looked
  }
}

onPress({
  ...Object.fromEntries(faults.map(({ text, fault, more }) => [`lab-${text}`, (worker: string, pressed: HTMLElement) => act(pressed, fault, { worker, ...more })])),
  'lab-add': (_, pressed) => act(pressed, 'workers', { action: 'add' }),
  'lab-duplicate': (_, pressed) => act(pressed, 'duplicate', {}),
  'lab-burst': (_, pressed) => act(pressed, 'burst', {}),
  'lab-calm': async () => {
    for (const service of ['blob', 'queue', 'table']) await act(null, 'storage', { service, fault: 'none' });
    tell('Nothing disturbs the storage any more.');
  },
});
$<HTMLFormElement>('lab-storage').addEventListener('submit', (event) => {
  event.preventDefault();
  const form = new FormData(event.currentTarget as HTMLFormElement);
  void act(event.submitter, 'storage', {
    service: form.get('service'), fault: form.get('fault'), share: Number(form.get('share')), seconds: Number(form.get('seconds')),
  });
});

void poll(2000, async () => {
  try {
    await load();
  } catch (err) {
    if (err instanceof Problem && err.status === 404) return true;
    // The web role is being restarted, or storage hangs: the page says so elsewhere.
  }
  return false;
});
