// The page of a race: a start list goes in, a bib or an age group leads to the moment
// in the video, and from there to a clip that one can keep or pass on.
import { $, plural, type List, Problem, call, duration, during, field, message, onSubmit, say, type Schemas } from '../api';
import { setUp as setUpClips } from '../finishclip';
import { type Html, draw, html, row } from '../html';

type Registration = Schemas['Registration'];
type ImportReport = Schemas['ImportReport'];

const names = ['event', 'distance', 'bib', 'from', 'to'] as const;
const pageSize = '50';

// An event's key: see docs/data-model.md, table registrations.
const eventPath = () => `/events/${encodeURIComponent(`${field('event').value.trim()}__${field('distance').value.trim()}`)}/registrations`;

let next = '';
let runners: Registration[] = [];

// What the row of a runner who is seen in a video has beside the moments.
const beside: ((runner: Registration) => Html)[] = [];
const clips = setUpClips(eventPath, () => show());
beside.push(clips.offer);

async function find(more: boolean) {
  const params = new URLSearchParams({ limit: pageSize });
  const [bib, from, to] = [field('bib').value, field('from').value, field('to').value];
  if (bib) params.set('bib', bib);
  else if (from && to && Number(from) > Number(to)) {
    say('The ages are the wrong way round: the first is the younger one.');
    return;
  } else if (from || to) {
    params.set('ageFrom', from || '0');
    params.set('ageTo', to || '150');
  }
  if (more && next) params.set('pageToken', next);
  const page = await call<Schemas['RegistrationList']>('GET', `${eventPath()}?${params}`);
  next = page.nextPageToken ?? '';
  $('more').hidden = !next;
  $('found').hidden = !more && page.items.length === 0;
  if (!more) clips.clear();
  runners = more ? [...runners, ...page.items] : page.items;
  show();
  if (page.items.length) say(`${runners.length}${next ? ' or more' : ''} found; ${page.entitiesRead} rows read in ${plural(page.requests, 'request')}`);
  else say(bib ? `No runner has bib ${bib} in this event.` : 'No runner is registered like that in this event.');
}

const show = () => draw($('runners'), html`${runners.map((runner) => row(runner.bib, [runner.name, inVideo(runner),
  runner.finishedAt && new Date(runner.finishedAt).toLocaleString(), runner.age, runner.sex], html`id="runner-${runner.bib}"`))}`);

function inVideo(runner: Registration) {
  if (!runner.moments.length) return html`<ul class="plain"></ul><span class="soft">${runner.finishedAt ? 'No film that is tied to this race shows it.' : 'The list has no time of the finish.'}</span>`;
  return html`<ul class="plain">${runner.moments.map((m) => html`<li><a href="${m.watch}">${m.title} at ${duration(m.atSeconds)}</a></li>`)}</ul>${beside.map((part) => part(runner))}`;
}

// readAs says that the encoding of a list was a guess: whether it was right shows in the names.
const readAs = (charset: string) => (charset === 'utf-8' ? '' : ` The list was read as ${charset}. If names look wrong, save it as UTF-8 and import it under another event: in this one the bibs are taken.`);

// send is a request whose progress can be seen, which fetch does not tell.
function send(file: File): Promise<ImportReport> {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open('POST', `/api/v1${eventPath()}`);
    request.setRequestHeader('Content-Type', 'text/csv');
    request.responseType = 'json';
    request.upload.addEventListener('progress', (event) => {
      if (event.lengthComputable) $<HTMLProgressElement>('bar').value = event.loaded / event.total;
    });
    request.addEventListener('load', () => {
      if (request.status === 200) done(request.response);
      else failed(new Problem(request.response ?? {}, request.status));
    });
    request.addEventListener('error', () => failed(new Error('The connection broke. Send the list again: what arrived is kept.')));
    request.send(file);
  });
}

const report = (text: string) => { $('report').textContent = text; };

onSubmit('import', async () => {
  const file = field('csv').files?.[0];
  if (!file || !$<HTMLFormElement>('find').reportValidity()) return;
  $('sending').hidden = false;
  draw($('refusals'), html``);
  report('Importing…');
  await during($<HTMLButtonElement>('send'), async () => {
    const done = await send(file);
    if (!field('bib').value) await find(false);
    report(`${done.accepted} stored (${done.unchanged} of them were there already), ${done.refused} refused, in ${plural(done.requests, 'request')} to the table service.${readAs(done.charset)}`);
    draw($('refusals'), html`${done.refusals.slice(0, 100).map((r) => html`<li>Line ${r.line}${r.bib ? `, bib ${r.bib}` : ''}: ${r.detail}</li>`)}`);
  }, report);
  $('sending').hidden = true;
});

onSubmit('find', () => {
  const params = new URLSearchParams(names.flatMap((name) => (field(name).value ? [[name, field(name).value]] : [])));
  history.replaceState(null, '', `/race?${params}`);
  return find(false);
});
$('more').addEventListener('click', () => { find(true).catch((err) => say(message(err))); });

// A link can be passed on: /race?event=…&distance=Full&bib=1234.
const address = new URLSearchParams(location.search);
for (const name of names) field(name).value = address.get(name) ?? field(name).value;

// Which events there are, to choose from.
async function events() {
  const { items } = await call<List<string>>('GET', '/events?limit=100');
  const parts = items.map((text) => text.split('__') as [string, string]);
  draw($('events'), html`${[...new Set(parts.map(([event]) => event))].map((event) => html`<option value="${event}"></option>`)}`);
  $('known').hidden = items.length === 0 || Boolean(field('event').value);
  draw($('known'), html`Events: ${parts.map(([event, distance]) => html`<a class="chip" href="/race?${String(new URLSearchParams({ event, distance }))}">${event}, ${distance}</a> `)}`);
}
events().catch((err) => console.info('events', message(err)));

if (address.get('event')) find(false).catch((err) => say(message(err)));
