import { $, type List, Problem, type Step, type Video, call, copy, duration, during, field, poll, say, settled, stateText } from '../api';
import { setUp as setUpCaptions } from '../captions';
import { setUp as setUpClip } from '../clip';
import { setUp as setUpEdit } from '../edit';
import { type Part, draw, html, onPress } from '../html';
import { setUp as setUpJourney } from '../journey';
import { setUp as setUpKeys } from '../keys';
import { Player } from '../player';
import { setUp as setUpRemove } from '../remove';
import { Scrub } from '../scrub';
import { setUp as setUpSeek } from '../seek';
import { setUp as setUpViews } from '../views';

const id = $('video').dataset.id ?? '';
const player = new Player($<HTMLVideoElement>('player'), say, (list) => {
  const choice = $<HTMLSelectElement>('quality');
  draw(choice, html`${list.map(({ value, name }) => html`<option value="${value}">${name}</option>`)}`);
  choice.disabled = false;
  choice.onchange = () => player.choose(Number(choice.value));
});
const scrub = new Scrub($('scrub'), player);
const seekAgain = setUpSeek(id, player, scrub);
let video: Video | undefined;
let broken = false; // a step has failed, alone if the video is ready

const showClip = setUpClip(id, player.element);

const actions = document.querySelectorAll<HTMLButtonElement>('[data-action]');

const may: Record<string, (v: Video) => boolean> = {
  retry: (v) => ['failed', 'cancelled'].includes(v.state) || (v.state === 'ready' && broken),
  cancel: (v) => ['awaiting_upload', 'uploaded', 'processing'].includes(v.state),
  reprocess: (v) => ['ready', 'failed'].includes(v.state) && v.sizeBytes > 0,
  delete: () => true,
  edit: () => true,
};

// offer shows the buttons of what may be done with a video.
function offer(v: Video) {
  for (const button of actions) button.hidden = !v.mayChange || !may[button.dataset.action ?? '']?.(v);
}

const list = (id: string, pairs: [string, Part][]) => draw($(id), html`${pairs.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}`);

const isVideo = (value: unknown): value is string => typeof value === 'string' && /^[a-z2-7]{26}$/.test(value);

// What the steps left with the video, whichever there are: facts and files.
const made = (v: Video) => (v.made || []).flatMap((m): [string, Part][] => [
  ...Object.entries(m.facts || {}).filter(([, value]) => !isVideo(value)).map(([name, value]): [string, string] => [`${m.step}: ${name}`, String(value)]),
  ...m.files.map((f): [string, Part] => [`${m.step}: file`, html`<a href="${f.url}">${f.name}</a>`])]);

// Another video that a step names, once: "Same as" of a fact sameAs.
function others(v: Video) {
  const seen = new Map<string, string>();
  for (const [name, value] of (v.made || []).flatMap((m) => Object.entries(m.facts || {}))) {
    if (isVideo(value) && !seen.has(value)) seen.set(value, name);
  }
  return [...seen].map(([id, name]): [string, Part] => {
    const words = name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
    return [words.charAt(0).toUpperCase() + words.slice(1), html`<a href="/watch/${id}">${id}</a>`];
  });
}

function show(v: Video) {
  video = v;
  document.title = `${v.title} · Cutroom`;
  $('title').textContent = v.title;
  $('description').textContent = v.description;
  $('video').dataset.state = v.state;
  say(v.state === 'ready' ? '' : stateText(v, true));
  $('stage').toggleAttribute('data-growing', !settled(v)); // its time line is the one below
  $('working').hidden = v.state !== 'processing' && !(v.state === 'awaiting_upload' && v.playable);
  $<HTMLProgressElement>('bar').value = v.progress.percent;
  list('facts', [['Channel', html`<a href="/?${String(new URLSearchParams({ channel: v.channel }))}">${v.channel}</a>`], ['Actors', v.actors.join(', ')], ['Directors', v.directors.join(', ')], ['Tags', v.tags.join(', ')],
    ['Length', v.durationSeconds && duration(v.durationSeconds)],
    ['Renditions', v.renditions.map((r) => r.name).join(', ')], ['Left out', (v.notices || []).map((n) => n.detail).join(' ')], ...others(v)]);
  list('found', made(v));
  $('found-none').hidden = Boolean(v.made?.length);
  offer(v);
  $('send-captions').hidden = !v.mayChange;
  showClip(v.state === 'ready');
  $('download').hidden = !v.links.download;
  if (v.links.download) $<HTMLAnchorElement>('download').href = v.links.download;
  scrub.board = v.links.storyboard;
  player.update(v);
  $('waiting').hidden = Boolean(v.links.master) && v.state !== 'awaiting_upload';
  draw($('waiting'), waiting(v));
}

function waiting({ state, links }: Video) {
  // Also on another device: anyone who has the file may send what is missing.
  if (state === 'awaiting_upload') return html`The upload is not complete. <a href="/upload?video=${id}">Go on with it</a>, here or on another device, with the same file.`;
  if (links.master) return html``;
  return state === 'failed' ? html`There is nothing to watch.` : html`It can be watched as soon as its first seconds are processed.`;
}

async function steps(v: Video) {
  const { items } = await call<List<Step>>('GET', `/videos/${id}/steps`);
  broken = items.some((s) => s.state === 'failed');
  offer(v);
  scrub.update(items, v.durationSeconds);
  await seekAgain();
}

setUpCaptions(id, player.element, () => player.reload());
setUpKeys(player, scrub);
setUpViews(id, player.element);
const journey = setUpJourney(id, () => video);

let still = 0;
poll(1500, async () => {
  // A settled video changes rarely, and then by this page or another user.
  if (video && settled(video) && still++ % 10 !== 0) return false;
  try {
    const read = await call<Video>('GET', `/videos/${id}`);
    show(read);
    await steps(read);
    await journey();
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 404) throw err;
    say('There is no such video any more, or it is private and not yours.');
    $('waiting').textContent = '';
    player.stop();
    return true;
  }
  return false;
});

for (const button of actions) {
  const { action } = button.dataset;
  if (action === 'delete') setUpRemove(id, button);
  else if (action !== 'edit') {
    button.addEventListener('click', () => during(button, async () => {
      still = 0;
      show(await call<Video>('POST', `/videos/${id}/${action}`));
    }));
  }
}
setUpEdit(() => video!, show);

// A link to the moment that is shown, and what other sites need to show the video.
$('share').addEventListener('toggle', () => {
  const at = Math.floor(player.element.currentTime);
  field('share-link').value = `${location.origin}/watch/${id}${at > 0 ? `?t=${at}` : ''}`;
  field('share-frame').value = `<iframe src="${location.origin}/embed/${id}" width="640" height="360" allow="fullscreen" loading="lazy" title="Video"></iframe>`;
});
onPress({ copy: (from) => copy(field(from).value, (text) => { $('share-said').textContent = text; }, 'Copied.') });
