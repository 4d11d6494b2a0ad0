// The page that sends files: a row for each, from its choice to the link that plays it.
import { $, type Video, bytes, call, element, field, message, onSubmit, poll, say, settled, stateText } from './api';
import { unfinished } from './memory';
import { otherKind } from './sniff';
import { suggestAll } from './suggest';
import { raceIn } from './tie';
import { Cancelled, type Metadata, Transfer, fingerprint } from './transfer';

const names = (id: string) => field(id).value.split(',').map((s) => s.trim()).filter(Boolean);

suggestAll(field);

function metadata(title: string): Metadata {
  return {
    title, description: field('description').value, channel: field('channel').value.trim(),
    actors: names('actors'), directors: names('directors'), tags: names('tags'),
    visibility: field('visibility').value, priority: field('priority').value, race: raceIn('race-') ?? undefined,
  };
}

function timeLeft(seconds: number) {
  if (seconds < 60) return `${Math.ceil(seconds)} s left`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min left` : `${(seconds / 3600).toFixed(1)} h left`;
}

type Phase = 'checking' | 'refused' | 'waiting' | 'sending' | 'broken' | 'making' | 'settled' | 'cancelled';

// Row is one file on the page.
class Row {
  phase: Phase = 'checking';
  video: Video | null = null;
  readonly transfer: Transfer;
  private trouble = '';
  private begun = false; // it is its turn to be sent
  private kind = ''; // what it is, if that is no video

  private readonly title = element('input', { maxlength: 200, required: true });
  private readonly bar = element('progress', { max: 1, value: 0 });
  private readonly stage = element('strong', { class: 'stage-name' }); // what the bar stands for
  private readonly words = element('span', { class: 'soft' });
  private readonly pause = element('button', { type: 'button' });
  private readonly cancel = element('button', { type: 'button' }, 'Cancel');
  private readonly link = element('a', { class: 'button' }, 'Watch');
  private readonly here = element('button', { type: 'button' }); // plays it on this page
  private frame: HTMLIFrameElement | null = null;
  readonly item: HTMLLIElement;

  constructor(readonly file: File, id = '') {
    this.transfer = new Transfer(file, () => this.show(), id);
    this.title.value = file.name.replace(/\.[^.]+$/, '').slice(0, 200) || 'Untitled';
    this.item = element('li', {},
      element('label', {}, element('span', { class: 'soft' }, `Title of ${file.name}, ${bytes(file.size)}`), this.title),
      element('div', { class: 'row' }, this.stage, this.bar, this.words, this.pause, this.cancel, this.here, this.link));
    this.bar.setAttribute('aria-label', `Progress of ${file.name}`);
    this.pause.addEventListener('click', () => this.pressed());
    this.cancel.addEventListener('click', () => this.remove());
    this.here.addEventListener('click', () => this.play());
    this.show();
  }

  async check() {
    this.kind = this.file.size === 0 ? 'an empty file' : await otherKind(this.file) ?? '';
    this.phase = this.kind ? 'refused' : 'waiting';
    this.show();
  }

  async send() {
    this.phase = 'sending';
    this.begun = sending = true;
    this.show();
    try {
      this.video = await this.transfer.run(metadata(this.title.value.trim() || this.file.name));
      this.phase = 'making';
      say(`${this.video.title} is uploaded.`);
    } catch (err) {
      if (err instanceof Cancelled) return;
      this.phase = 'broken';
      this.trouble = message(err);
      say(`${this.file.name}: ${this.trouble}`);
    } finally {
      sending = rows.some((row) => row.phase === 'sending');
      this.show();
    }
  }

  // follow asks how far the workers are.
  async follow() {
    if (!this.video || this.phase !== 'making') return;
    this.video = await call<Video>('GET', `/videos/${this.video.id}`);
    if (settled(this.video)) this.phase = 'settled';
    this.show();
  }

  private pressed() {
    if (this.phase === 'sending') this.transfer.pause(!this.transfer.paused);
    else void this.send(); // broken: again
  }

  // play shows the player in the row, or closes it: the page goes on sending.
  private play() {
    if (this.frame) {
      this.frame.remove();
      this.frame = null;
    } else {
      const title = `Player: ${this.title.value}`;
      this.frame = element('iframe', { src: `/embed/${this.item.dataset.id}#play`, title, allow: 'autoplay; fullscreen', allowfullscreen: true });
      this.item.append(this.frame);
    }
    this.show();
  }

  private remove() {
    const sent = this.phase === 'sending' || this.phase === 'broken';
    this.phase = 'cancelled';
    this.item.remove();
    rows.splice(rows.indexOf(this), 1);
    if (sent) this.transfer.cancel().catch((err) => say(message(err)));
    say(`${this.file.name} is not uploaded.`);
    ready();
    field('file').focus();
  }

  show() {
    const { phase, transfer, video } = this;
    this.item.dataset.phase = phase;
    this.title.readOnly = !['checking', 'waiting', 'broken'].includes(phase);
    this.words.textContent = this.text();
    this.bar.hidden = phase === 'refused';
    this.stage.textContent = phase === 'sending' && this.begun ? '1 of 2: sending' : phase === 'making' ? '2 of 2: making' : '';
    if (phase === 'making' && video) this.bar.value = video.progress.percent / 100;
    else if (phase === 'settled') this.bar.value = 1;
    else this.bar.value = this.file.size ? transfer.sent / this.file.size : 0;
    this.pause.hidden = (phase !== 'sending' || !this.begun) && phase !== 'broken';
    this.pause.textContent = phase === 'broken' ? 'Try again' : transfer.paused ? 'Go on' : 'Pause';
    this.cancel.hidden = phase === 'making' || phase === 'settled';
    this.cancel.textContent = phase === 'refused' || phase === 'waiting' ? 'Remove' : 'Cancel';
    this.here.textContent = this.frame ? 'Close' : 'Play here';
    this.here.setAttribute('aria-expanded', String(this.frame !== null));
    const name = video?.title ?? this.file.name;
    for (const button of [this.pause, this.cancel, this.here, this.link]) button.setAttribute('aria-label', `${button.textContent}: ${name}`);
    const known = video ?? transfer.video;
    this.link.hidden = !video && !transfer.playable;
    this.here.hidden = !transfer.playable && !video?.playable;
    if (known) {
      this.item.dataset.id = known.id;
      this.link.href = `/watch/${known.id}`;
    }
    if (phase === 'sending' && transfer.playable) this.link.target = '_blank'; // the page that sends must stay
    else this.link.removeAttribute('target');
    if (video) this.item.dataset.state = video.state;
  }

  private text(): string {
    const { phase, transfer, video } = this;
    switch (phase) {
      case 'checking': return 'Looking at it…';
      case 'waiting': return 'Not sent yet';
      case 'refused': return this.file.size === 0 ? 'The file is empty.' : `This is not a video: it is ${this.kind}. A video may be in ${$('upload').dataset.containers}.`;
      case 'broken': return this.trouble;
      case 'making': case 'settled': return video ? stateText(video, true) : '';
      case 'cancelled': return '';
    }
    if (!this.begun) return 'Waits for its turn';
    if (transfer.paused) return `Paused at ${bytes(transfer.sent)}`;
    if (transfer.retrying) return 'The connection broke; trying again…';
    const parts = [`${bytes(transfer.sent)} of ${bytes(this.file.size)}`];
    if (transfer.found > 0) parts.unshift(`Going on at ${bytes(transfer.found)}`);
    const speed = transfer.speed();
    if (transfer.playable) parts.push('can be watched already');
    if (speed > 0) parts.push(`${bytes(speed)}/s`, timeLeft((this.file.size - transfer.sent) / speed));
    return parts.join(' · ');
  }
}

const rows: Row[] = [];
let sending = false; // a file is on its way
const send = $<HTMLButtonElement>('send');

// ready keeps the button's words and state true.
function ready() {
  const waiting = rows.filter((row) => row.phase === 'waiting').length;
  send.disabled = waiting === 0;
  send.textContent = waiting > 1 ? `Upload ${waiting} files` : 'Upload';
}

// An upload that was announced elsewhere goes on here: ?video=<id>.
const elsewhere = new URLSearchParams(location.search).get('video');

async function idFor(file: File): Promise<string> {
  if (!elsewhere) return '';
  const video = await call<Video>('GET', `/videos/${elsewhere}`);
  const here = fingerprint(file).split('|');
  const there = (video.fingerprint ?? '').split('|'); // the time of a copy differs
  if (video.state === 'awaiting_upload' && here[0] === there[0] && here[1] === there[1]) return video.id;
  say(`${file.name} is not the file of that upload; it becomes a video of its own.`);
  return '';
}

async function add(files: Iterable<File>) {
  for (const file of files) {
    if (rows.some((row) => fingerprint(row.file) === fingerprint(file) && row.phase !== 'settled')) {
      say(`${file.name} is in the list already.`);
      continue;
    }
    const row = new Row(file, await idFor(file).catch(() => ''));
    rows.push(row);
    $('files').append(row.item);
    await row.check();
    if (row.phase === 'refused') say(`${file.name} is not a video.`);
    ready();
  }
}

field('file').addEventListener('change', () => {
  const chosen = [...field('file').files ?? []];
  field('file').value = ''; // so that the same file can be chosen again
  add(chosen).catch((err) => say(message(err)));
});

const drop = $('drop');
for (const kind of ['dragenter', 'dragover']) {
  addEventListener(kind, (event) => {
    event.preventDefault(); // or the browser opens the file in place of this page
    drop.classList.add('over');
  });
}
for (const kind of ['dragleave', 'drop', 'dragend']) addEventListener(kind, () => drop.classList.remove('over'));
addEventListener('drop', (event) => {
  event.preventDefault();
  add([...event.dataTransfer?.files ?? []]).catch((err) => say(message(err)));
});

// Files go one after another, each with several parts at a time: the first can be
// watched while the last is still being sent.
onSubmit('upload', async () => {
  const chosen = rows.filter((row) => row.phase === 'waiting');
  sending = true;
  for (const row of chosen) {
    row.phase = 'sending';
    row.show();
  }
  ready();
  for (const row of chosen) if (row.phase === 'sending') await row.send();
  ready();
});

addEventListener('beforeunload', (event) => {
  if (sending) event.preventDefault();
});

void poll(1500, async () => {
  for (const row of rows) await row.follow();
});

async function showUnfinished() {
  const left = (await unfinished()).map((file) => file.replace(/\|\d+\|\d+$/, ''));
  $('unfinished').hidden = left.length === 0;
  $('unfinished').textContent = `Not finished: ${left.slice(0, 5).join(', ')}${left.length > 5 ? ` and ${left.length - 5} more` : ''}. Choose ${left.length === 1 ? 'it' : 'them'} again to go on.`;
}
void showUnfinished();
