// The page that sends files: a row for each, from its choice to the link that plays it.
import { $, type Video, bytes, call, field, message, onSubmit, poll, say, seconds, settled, stateText } from '../api';
import { type Part, add as addTo, draw, html, onPress } from '../html';
import { unfinished } from '../memory';
import { suggestAll } from '../suggest';
import { setUp as setUpRace } from '../tie';
import { Cancelled, type Metadata, Transfer, fingerprint } from '../transfer';

const names = (id: string) => field(id).value.split(',').map((s) => s.trim()).filter(Boolean);

suggestAll(field);
const raceFields = setUpRace('race-');

function metadata(title: string): Metadata {
  return {
    title, description: field('description').value, channel: field('channel').value.trim(),
    actors: names('actors'), directors: names('directors'), tags: names('tags'),
    visibility: field('visibility').value as Metadata['visibility'], priority: field('priority').value as Metadata['priority'],
    race: raceFields.read() ?? undefined,
  };
}

// otherKind tells from its first bytes what a file certainly is, if that is no video, before
// anything is sent. The patterns are the server's, which asks the same of what arrives.
async function otherKind(file: Blob): Promise<string | undefined> {
  const { kinds = '[]', head } = $('upload').dataset;
  const text = String.fromCharCode(...new Uint8Array(await file.slice(0, Number(head)).arrayBuffer())); // a character for each byte
  const known: { name: string; pattern: string }[] = JSON.parse(kinds);
  return known.find((kind) => new RegExp(kind.pattern).test(text))?.name;
}

type Phase = 'checking' | 'refused' | 'waiting' | 'sending' | 'broken' | 'making' | 'settled' | 'cancelled';

// Row is one file on the page.
class Row {
  phase: Phase = 'checking';
  video: Video | null = null;
  readonly transfer: Transfer;
  private begun = false; // it is its turn to be sent
  private why = ''; // it is refused or broken

  private playing = false; // on this page
  readonly number = String(made++);
  readonly item: HTMLLIElement;

  constructor(readonly file: File, id = '') {
    this.transfer = new Transfer(file, () => this.show(), id);
    const title = file.name.replace(/\.[^.]+$/, '').slice(0, 200) || 'Untitled';
    addTo($('files'), html`<li><label><span class="soft">Title of ${file.name}, ${bytes(file.size)}</span><input maxlength="200" required value="${title}"></label><div class="row"></div><div></div></li>`);
    this.item = $('files').lastElementChild as HTMLLIElement;
    this.show();
  }

  private get title() { return this.item.querySelector('input')!; }

  async check() {
    const kind = await otherKind(this.file);
    if (kind) this.why = `This is not a video: it is ${kind}. A video may be in ${$('upload').dataset.containers}.`;
    if (this.file.size === 0) this.why = 'The file is empty.';
    this.phase = this.why ? 'refused' : 'waiting';
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
      this.why = message(err);
      say(`${this.file.name}: ${this.why}`);
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

  // pause stops for a while or goes on, and tries again what is broken.
  pause() {
    if (this.phase === 'sending') this.transfer.pause(!this.transfer.paused);
    else void this.send();
  }

  // play shows the player in the row, or closes it: the page goes on sending.
  play() {
    this.playing = !this.playing;
    this.show();
  }

  remove() {
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
    const { phase, video, item } = this;
    const id = video?.id ?? this.transfer.video?.id;
    item.dataset.phase = phase;
    if (id) item.dataset.id = id;
    if (video) item.dataset.state = video.state;
    this.title.readOnly = !['checking', 'waiting', 'broken'].includes(phase);
    const [row, player] = item.querySelectorAll('div');
    draw(row!, html`<strong class="stage-name">${phase === 'sending' && this.begun ? '1 of 2: sending' : phase === 'making' && '2 of 2: making'}</strong>
      <progress max="1" value="${this.done()}" aria-label="Progress of ${this.file.name}" ${phase === 'refused' && 'hidden'}></progress>
      <span class="soft">${this.text()}</span>${this.buttons(id)}`);
    draw(player!, html`${this.playing && html`<iframe src="/embed/${id}#play" title="Player: ${this.title.value}" allow="autoplay; fullscreen" allowfullscreen></iframe>`}`);
  }

  private done() {
    if (this.phase === 'settled') return 1;
    if (this.phase === 'making' && this.video) return this.video.progress.percent / 100;
    return this.file.size ? this.transfer.sent / this.file.size : 0;
  }

  private buttons(id: string | undefined) {
    const { phase, transfer, video } = this;
    const name = video?.title ?? this.file.name;
    const button = (press: string, text: string, more: Part = '') => html`<button type="button" id="${press}-${this.number}" data-press="${press}" data-of="${this.number}" aria-label="${text}: ${name}" ${more}>${text}</button>`;
    const newTab = phase === 'sending' && transfer.playable; // the page that sends must stay
    return [
      phase === 'broken' ? button('pause', 'Try again') : phase === 'sending' && this.begun && button('pause', transfer.paused ? 'Go on' : 'Pause'),
      phase !== 'making' && phase !== 'settled' && button('remove', phase === 'refused' || phase === 'waiting' ? 'Remove' : 'Cancel'),
      (transfer.playable || video?.playable) && button('play', this.playing ? 'Close' : 'Play here', html`aria-expanded="${String(this.playing)}"`),
      (video || transfer.playable) && html`<a class="button" href="/watch/${id}" aria-label="Watch: ${name}" ${newTab && html`target="_blank"`}>Watch</a>`,
    ];
  }

  private text(): string {
    const { phase, transfer, video } = this;
    switch (phase) {
      case 'checking': return 'Looking at it…';
      case 'waiting': return 'Not sent yet';
      case 'refused': case 'broken': return this.why;
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
    if (speed > 0) parts.push(`${bytes(speed)}/s`, `${seconds((this.file.size - transfer.sent) / speed)} left`);
    return parts.join(' · ');
  }
}

const rows: Row[] = [];
let sending = false; // a file is on its way
let made = 0; // rows, also those that are gone
const send = $<HTMLButtonElement>('send');

const rowOf = (number: string) => rows.find((row) => row.number === number);
onPress({ pause: (number) => rowOf(number)?.pause(), remove: (number) => rowOf(number)?.remove(), play: (number) => rowOf(number)?.play() });

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
