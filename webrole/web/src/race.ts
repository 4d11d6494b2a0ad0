// The page of a race: a start list goes in, a bib or an age group leads to the moment
// in the video, and from there to a clip that one can keep or pass on.
import { $, type ImportReport, copy as copyText, plural, type List, Problem, type Registration, type RegistrationPage, call, duration, during, element, field, message, onSubmit, say } from './api';
import { makeClip } from './clip';

const names = ['event', 'distance', 'bib', 'from', 'to'] as const;
const pageSize = '50';

// An event's key: see docs/data-model.md, table registrations.
const eventPath = () => `/events/${encodeURIComponent(`${field('event').value.trim()}__${field('distance').value.trim()}`)}/registrations`;

let next = '';

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
  const page = await call<RegistrationPage>('GET', `${eventPath()}?${params}`);
  next = page.nextPageToken ?? '';
  $('more').hidden = !next;
  $('found').hidden = !more && page.items.length === 0;
  const rows = page.items.map(row);
  if (more) $('runners').append(...rows);
  else $('runners').replaceChildren(...rows);
  if (page.items.length) say(`${$('runners').children.length}${next ? ' or more' : ''} found; ${page.entitiesRead} rows read in ${plural(page.requests, 'request')}`);
  else say(bib ? `Nobody has bib ${bib} in this event.` : 'Nobody is registered like that in this event.');
}

function row(runner: Registration): HTMLTableRowElement {
  const finish = runner.finishedAt ? new Date(runner.finishedAt).toLocaleString() : '';
  const moments = runner.moments.map((m) => element('li', {},
    element('a', { href: m.watch }, `${m.title} at ${duration(m.atSeconds)}`)));
  const cell = element('td', {}, element('ul', { class: 'plain' }, ...moments));
  if (moments.length) cell.append(clipper(runner));
  else cell.append(element('span', { class: 'soft' }, runner.finishedAt ? 'No film that is tied to this race shows it.' : 'The list has no time of the finish.'));
  return element('tr', { 'data-bib': runner.bib }, element('th', { scope: 'row' }, String(runner.bib)),
    element('td', {}, runner.name), cell, ...[finish, String(runner.age), runner.sex].map((text) => element('td', {}, text)));
}

// labelled tells alike elements of several runners apart. What is read aloud begins with
// what is seen, because that is what people say who speak to a page.
function labelled<E extends HTMLElement>(e: E, runner: Registration): E {
  e.setAttribute('aria-label', `${e.textContent}: finish of ${runner.name}`);
  return e;
}

// clipper is the button that makes the clip of a finish, and then its link.
function clipper(runner: Registration): Node {
  const button = labelled(element('button', { type: 'button' }, 'Make the clip'), runner);
  const place = element('span', { class: 'clip' }, button);
  button.addEventListener('click', async () => {
    button.disabled = true;
    button.textContent = 'Making it…';
    labelled(button, runner);
    try {
      const media = await makeClip(`${eventPath()}/${runner.bib}/clips`, {});
      const focused = [button, document.body].includes(document.activeElement as HTMLElement); // disabled, it may have lost it
      place.replaceChildren(...links(media, runner));
      if (focused) place.querySelector('a')?.focus();
      say(`The clip of ${runner.name} is there.`);
    } catch (err) {
      say(message(err));
      button.disabled = false;
      button.textContent = 'Make the clip';
      labelled(button, runner);
    }
  });
  return place;
}

function links(media: string, runner: Registration): (Node | string)[] {
  const copy = labelled(element('button', { type: 'button' }, 'Copy link'), runner);
  copy.addEventListener('click', () => copyText(new URL(media, location.href).href, say, 'The link is copied.'));
  return [labelled(element('a', { href: media, class: 'button' }, 'Watch the clip'), runner), ' ',
    labelled(element('a', { href: media, class: 'button', download: `finish-${runner.bib}.mp4` }, 'Download'), runner), ' ', copy];
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
  $('refusals').replaceChildren();
  report('Importing…');
  await during($<HTMLButtonElement>('send'), async () => {
    const done = await send(file);
    if (!field('bib').value) await find(false);
    report(`${done.accepted} stored (${done.unchanged} of them were there already), ${done.refused} refused, in ${plural(done.requests, 'request')} to the table service.${readAs(done.charset)}`);
    $('refusals').replaceChildren(...done.refusals.slice(0, 100).map((r) => element('li', {}, `Line ${r.line}${r.bib ? `, bib ${r.bib}` : ''}: ${r.detail}`)));
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
  $('events').replaceChildren(...[...new Set(parts.map(([event]) => event))].map((event) => element('option', { value: event })));
  $('known').hidden = items.length === 0 || Boolean(field('event').value);
  $('known').replaceChildren('Events: ', ...parts.flatMap(([event, distance]) => [element('a', { class: 'chip', href: `/race?${new URLSearchParams({ event, distance })}` }, `${event}, ${distance}`), ' ']));
}
events().catch((err) => console.info('events', message(err)));

if (address.get('event')) find(false).catch((err) => say(message(err)));
