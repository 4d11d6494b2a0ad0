// The lab on the board: buttons for the faults that the stack can inject.
// (docs/lab.md). The section is in the page where there is a lab, and shows itself
// when that answers. Results are said in words; nothing asks for confirmation,
// because everything heals.
import { $, Problem, call, element, message, poll, type Schemas } from './api';

type Lab = Schemas['Lab'];
type LabDone = Schemas['LabDone'];
type LabWorker = Schemas['LabWorker'];

const said = $('lab-said');

function tell(text: string) {
  if (said.textContent !== text) said.textContent = text;
}

// act does something, says what came of it, and shows what the bench looks like now.
async function act(button: HTMLButtonElement | null, fault: string, body: object) {
  if (button) button.disabled = true;
  try {
    const done = await call<LabDone>('POST', `/lab/${fault}`, { body });
    tell(done.says);
    document.dispatchEvent(new CustomEvent('lab-act', { detail: done.says }));
    await load();
  } catch (err) {
    tell(message(err));
  }
  if (button) {
    button.disabled = false;
    if (document.activeElement === document.body) button.focus(); // a disabled button loses it
  }
}

function press(button: HTMLButtonElement, fault: string, body: object) {
  button.addEventListener('click', () => void act(button, fault, body));
}

const seconds = (until: string) => Math.max(0, Math.ceil((Date.parse(until) - Date.now()) / 1000));

const texts: Record<LabWorker['state'], string> = {
  running: 'running', starting: 'starting', frozen: 'frozen', stopping: 'giving its messages back', stopped: 'stopped',
};

// card is what one worker looks like. It is made once, so that focus stays where it is.
function card(name: string) {
  const button = (text: string, fault: string, more: object, label: string) => {
    const made = element('button', { type: 'button', 'aria-label': `${label} ${name}` }, text);
    press(made, fault, { worker: name, ...more });
    return made;
  };
  const process = [
    button('Kill', 'kill', {}, 'Kill'), button('Freeze', 'freeze', {}, 'Freeze beyond its lease:'),
    button('Stop', 'stop', {}, 'Stop and start again:'), button('Remove', 'stop', { stay: true }, 'Remove'),
  ];
  const back = element('button', { type: 'button', 'aria-label': `Bring back ${name} or another that is stopped` }, 'Bring back');
  press(back, 'workers', { action: 'add' });
  const state = element('span', { class: 'soft' });
  const root = element('div', { class: 'lab-worker', role: 'group', 'aria-label': name, 'data-worker': name },
    element('strong', {}, name), state, element('span', { class: 'row' }, ...process, back));
  const show = (w: LabWorker) => {
    root.dataset.state = w.state;
    root.dataset.pid = String(w.pid ?? '');
    let text = texts[w.state];
    if (w.until) text += `, wakes in ${seconds(w.until)} s`;
    if (w.pid) text += ` · process ${w.pid}`;
    state.textContent = text;
    for (const b of process) b.hidden = w.state === 'stopped';
    back.hidden = w.state !== 'stopped';
  };
  return { root, show };
}

const cards = new Map<string, ReturnType<typeof card>>();

function showWorkers(workers: LabWorker[]) {
  for (const w of workers) {
    let shown = cards.get(w.name);
    if (!shown) {
      shown = card(w.name);
      cards.set(w.name, shown);
    }
    shown.show(w);
    // Its place is the worker's card in the picture, whose name ends with the process.
    const place = (w.pid && document.querySelector(`#board-workers [data-worker$="-${w.pid}"]:not([hidden])`)) || $('lab-workers');
    if (shown.root.parentElement === place) continue;
    const focused = shown.root.contains(document.activeElement) ? document.activeElement as HTMLElement : null;
    place.append(shown.root);
    focused?.focus({ preventScroll: true });
  }
}

let duplicates = 0; // when the newest was made; those of before are no news

function showRest(lab: Lab) {
  $('lab-faults').textContent = lab.storage.map((f) =>
    `${f.service}: ${f.fault.replace('_', ' ')}, ${Math.round(100 * f.share)} % for ${seconds(f.until)} s more, ${f.met} requests met it`).join(' · ');
  const more = [];
  if (lab.duplicateUntil) more.push(`the next message within ${seconds(lab.duplicateUntil)} s is delivered twice`);
  const last = lab.duplicates[0];
  if (last) {
    more.push(`delivered twice: ${last.step} of video ${last.subject}, queue ${last.queue}`);
    const at = Date.parse(last.at);
    if (duplicates && at > duplicates) tell(`A message of queue ${last.queue} (${last.step} of video ${last.subject}) was delivered twice.`);
    duplicates = at;
  }
  duplicates ||= 1;
  if (lab.burst) {
    const failed = lab.burst.failed ? `, ${lab.burst.failed} failed: ${lab.burst.error ?? ''}` : '';
    more.push(`burst: ${lab.burst.ids.length} of ${lab.burst.videos} uploaded${failed}`);
  }
  $('lab-more').textContent = more.join(' · ');
  $<HTMLButtonElement>('lab-burst').disabled = lab.burst?.running ?? false;
}

async function load() {
  const lab = await call<Lab>('GET', '/lab');
  showWorkers(lab.workers);
  showRest(lab);
  if ($('lab').hidden) {
    $('lab').hidden = false;
    if (location.hash === '#lab') $('lab').scrollIntoView(); // it was not there yet when the browser looked
  }
}

press($<HTMLButtonElement>('lab-add'), 'workers', { action: 'add' });
press($<HTMLButtonElement>('lab-duplicate'), 'duplicate', {});
press($<HTMLButtonElement>('lab-burst'), 'burst', {});
$('lab-calm').addEventListener('click', async () => {
  for (const service of ['blob', 'queue', 'table']) await act(null, 'storage', { service, fault: 'none' });
  tell('Nothing disturbs the storage any more.');
});
$<HTMLFormElement>('lab-storage').addEventListener('submit', (event) => {
  event.preventDefault();
  const form = new FormData(event.currentTarget as HTMLFormElement);
  void act(event.submitter as HTMLButtonElement | null, 'storage', {
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
