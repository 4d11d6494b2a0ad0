import type HlsPlayer from 'hls.js';
import type { ErrorData, Level } from 'hls.js';
import { $, type Captions, type List, Problem, type Step, type Video, call, duration, element, message, poll, say, settled, sleep, stateText } from './api';
import { setUp as setUpEdit } from './edit';
import { setUp as setUpRemove } from './remove';
import { Scrub } from './scrub';

// The library is a script of its own, beside ours.
declare global {
  interface Window { Hls?: typeof HlsPlayer }
}

const id = $('video').dataset.id ?? '';
const player = $<HTMLVideoElement>('player');
let attached = false;
const scrub = new Scrub($('scrub'), player, say);
let hls: HlsPlayer | null = null;
let video: Video;
let known = false; // video is there
let broken = false; // a step has failed, alone if the video is ready

// "?t=12.3" and "#t=12.3" start there, as the moments of a race ask for; a video
// that is still growing starts at 0, for that moment may not be there yet.
function startAt() {
  const t = Number(new URLSearchParams(location.search || location.hash.slice(1)).get('t'));
  return video.links.download && t > 0 && t < video.durationSeconds ? t : 0;
}

// A growing playlist is no live stream: without startPosition a player that
// joins late starts near the end. Native HLS comes second, because some browsers
// say "maybe" to it and then cannot play a playlist that grows.
function attach(master: string) {
  if (attached) return;
  attached = true;
  $('waiting').hidden = true;
  player.hidden = false;
  if (video.links.poster) player.poster = video.links.poster;
  if (window.Hls?.isSupported()) {
    hls = new window.Hls({ startPosition: startAt(), capLevelToPlayerSize: true });
    hls.on(window.Hls.Events.ERROR, (_, data) => failed(data));
    hls.on(window.Hls.Events.MANIFEST_PARSED, (_, data) => qualities(data.levels));
    hls.loadSource(master);
    hls.attachMedia(player);
  } else if (player.canPlayType('application/vnd.apple.mpegurl')) {
    player.src = `${master}#t=${startAt()}`;
  } else {
    say('This browser cannot play the video here. Download it instead.');
  }
}

// A video that is louder than others is turned down, once, before anybody has
// touched the control.
let turned = false;
function turnDown(v: Video) {
  const gain = Math.min(0, ...(v.made || []).map((m) => Number(m.facts?.gainDb ?? 0)));
  if (turned || gain === 0) return;
  turned = true;
  if (player.volume === 1) player.volume = 10 ** (gain / 20);
}

let recoveries = 0;
async function failed(data: ErrorData) {
  console.info('hls', data.type, data.details, data.fatal);
  if (!data.fatal) return; // hls.js deals with those by itself
  if (recoveries++ > 10) {
    say('Playback does not recover. Reload the page to try again.');
    return;
  }
  await sleep(1000);
  if (data.type === window.Hls?.ErrorTypes.MEDIA_ERROR) hls?.recoverMediaError();
  else if (hls?.levels.length) hls.startLoad();
  else if (video.links.master) hls?.loadSource(video.links.master); // the master could not be read
}

function qualities(levels: Level[]) {
  const choice = $<HTMLSelectElement>('quality');
  if (levels.length < 2) return;
  choice.replaceChildren(element('option', { value: -1 }, 'Automatic'),
    ...levels.map((level, i) => element('option', { value: i }, `${Math.min(level.width, level.height)}p`)));
  choice.hidden = $('quality-label').hidden = false;
  choice.onchange = () => { if (hls) hls.nextLevel = Number(choice.value); };
}

const actions = document.querySelectorAll<HTMLButtonElement>('[data-action]');

const may: Record<string, (v: Video) => boolean> = {
  retry: (v) => ['failed', 'cancelled'].includes(v.state) || (v.state === 'ready' && broken),
  cancel: (v) => ['awaiting_upload', 'uploaded', 'processing'].includes(v.state),
  reprocess: (v) => ['ready', 'failed'].includes(v.state) && v.sizeBytes > 0,
  delete: () => true,
  edit: () => true,
};

const list = (id: string, pairs: [string, string | Node][]) => $(id).replaceChildren(...pairs.filter(([, text]) => text)
  .flatMap(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));

const isVideo = (value: unknown): value is string => typeof value === 'string' && /^[a-z2-7]{26}$/.test(value);

// What the steps left with the video, whichever there are: facts and files.
const made = (v: Video) => (v.made || []).flatMap((m): [string, string | Node][] => [
  ...Object.entries(m.facts || {}).filter(([, value]) => !isVideo(value)).map(([name, value]): [string, string] => [`${m.step}: ${name}`, String(value)]),
  ...m.files.map((f): [string, Node] => [`${m.step}: file`, element('a', { href: f.url }, f.name)])]);

// Another video that a step names, once: "Same as" of a fact sameAs.
function others(v: Video) {
  const seen = new Map<string, string>();
  for (const [name, value] of (v.made || []).flatMap((m) => Object.entries(m.facts || {}))) {
    if (isVideo(value) && !seen.has(value)) seen.set(value, name);
  }
  return [...seen].map(([id, name]): [string, Node] => {
    const words = name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
    return [words.charAt(0).toUpperCase() + words.slice(1), element('a', { href: `/watch/${id}` }, id)];
  });
}

function show(v: Video) {
  video = v;
  known = true;
  document.title = `${v.title} · Cutroom`;
  $('title').textContent = v.title;
  $('description').textContent = v.description;
  $('video').dataset.state = v.state;
  say(stateText(v, true));
  $('working').hidden = v.state !== 'processing';
  $<HTMLProgressElement>('bar').value = v.progress.percent;
  const facts: [string, string | Node][] = [['Channel', v.channel], ['Actors', v.actors.join(', ')], ['Directors', v.directors.join(', ')], ['Tags', v.tags.join(', ')],
    ['Length', v.durationSeconds ? duration(v.durationSeconds) : ''],
    ['Renditions', v.renditions.map((r) => r.name).join(', ')], ...others(v)];
  turnDown(v);
  list('facts', facts);
  list('found', made(v));
  $('found-out').hidden = !v.made?.length;
  for (const button of actions) button.hidden = !may[button.dataset.action ?? '']?.(v);
  $('download').hidden = !v.links.download;
  if (v.links.download) $<HTMLAnchorElement>('download').href = v.links.download;
  scrub.pictures(v.links.storyboard).catch((err) => console.info('storyboard', message(err)));
  if (v.links.master) attach(v.links.master);
  else $('waiting').textContent = v.state === 'failed' ? 'There is nothing to watch.' : 'It can be watched as soon as its first seconds are processed.';
}

async function views() {
  const { total } = await call<{ total: number }>('GET', `/videos/${id}/views`);
  $('views').textContent = total === 1 ? '1 view' : `${total.toLocaleString()} views`;
  $('views').hidden = total === 0;
}

// One view for each visit, when the picture moves. A view that cannot be counted
// is no reason to trouble anybody.
player.addEventListener('playing', () => {
  call('POST', `/videos/${id}/views`).then(views).catch((err) => console.info('view', message(err)));
}, { once: true });

async function steps() {
  const { items } = await call<List<Step>>('GET', `/videos/${id}/steps`);
  broken = items.some((s) => s.state === 'failed');
  for (const button of actions) if (button.dataset.action === 'retry') button.hidden = !may.retry?.(video);
  scrub.update(items, video.durationSeconds);
  const several = (step: string) => items.filter((s) => s.step === step).length > 1;
  $('steps').replaceChildren(...items.map((s) => element('tr', {},
    element('th', { scope: 'row' }, several(s.step) ? `${s.step} ${s.index + 1}` : s.step),
    element('td', {}, s.error ? `${s.state} (${s.error})` : s.state), element('td', {}, String(s.attempts)), element('td', {}, s.worker || ''),
    element('td', {}, s.started && s.finished ? ((Date.parse(s.finished) - Date.parse(s.started)) / 1000).toFixed(1) : ''))));
}

// Captions come and go while the video stays. A player reads the list of them once,
// so it is told to read it again when there is one more or one less.
let offered: string | null = null;
async function captions() {
  const { items } = await call<List<Captions>>('GET', `/videos/${id}/captions`);
  const now = items.filter((c) => c.links.media).map((c) => c.language).join();
  if (offered !== null && offered !== now && hls && video.links.master) {
    hls.config.startPosition = player.currentTime;
    hls.loadSource(video.links.master);
  }
  offered = now;
  $('languages').replaceChildren(...items.map((c) => {
    const remove = element('button', { type: 'button', class: 'danger', 'aria-label': `Remove captions ${c.name}` }, 'Remove');
    remove.onclick = () => { call('DELETE', `/videos/${id}/captions/${c.language}`).then(captions).catch((err) => say(message(err))); };
    return element('li', {}, c.links.media ? element('a', { href: c.links.media, hreflang: c.language }, c.name) : c.name,
      ` ${c.error ? c.error.detail : (c.state === 'ready' ? '' : c.state === 'failed' ? 'failed' : 'is being made…')} `, remove);
  }));
  return items.some((c) => c.state === 'queued' || c.state === 'running');
}

const sendCaptions = $<HTMLFormElement>('send-captions');
const captionsFile = $<HTMLInputElement>('captions-file');
const language = $<HTMLInputElement>('language');
sendCaptions.addEventListener('submit', async (event) => {
  event.preventDefault();
  const file = captionsFile.files?.[0];
  if (!file) return;
  const type = file.name.toLowerCase().endsWith('.vtt') ? 'text/vtt' : 'application/x-subrip';
  try {
    await call('POST', `/videos/${id}/captions/${encodeURIComponent(language.value.trim())}`, { body: file.slice(0, file.size, type) });
    sendCaptions.reset();
    while (await captions()) await sleep(500);
  } catch (err) {
    say(message(err));
  }
});
captions().catch((err) => say(message(err)));

let still = 0;
poll(1500, async () => {
  // A settled video changes rarely, and then by this page or another user.
  if (known && settled(video) && still++ % 10 !== 0) return false;
  try {
    show(await call<Video>('GET', `/videos/${id}`));
    await steps();
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 404) throw err;
    say('This video does not exist, or it was deleted.');
    $('waiting').textContent = '';
    hls?.destroy();
    return true;
  }
  return false;
});

for (const button of actions) {
  const action = button.dataset.action ?? '';
  if (action === 'edit') continue;
  if (action === 'delete') {
    setUpRemove(id, button);
    continue;
  }
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      still = 0;
      show(await call<Video>('POST', `/videos/${id}/${action}`));
    } catch (err) {
      say(message(err));
    } finally {
      button.disabled = false;
    }
  });
}
setUpEdit(() => video, show);
