// One's own videos, whatever their state and visibility, newest first.
import { $, Problem, type Video, type VideoPage, call, duration, element, message, poll, say, settled, stateText } from './api';
import { thumb } from './thumb';

const cards = new Map<string, { item: HTMLLIElement; looks: string }>();
const seen = { public: 'Public', unlisted: 'Anyone with the link', private: 'Private' };
let pages = 1;
let still = 0; // asked, while nothing changes by itself
let awaited = true; // something changes by itself, or the list is not here yet

const date = (text: string) => new Date(text).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function size(bytes: number) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000;
  return `${bytes < 10 && at > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

// next is what its owner may do about a video that does not go on by itself.
function next(video: Video) {
  if (video.state === 'awaiting_upload') return element('a', { class: 'button', href: `/upload?video=${video.id}`, 'aria-label': `Go on with the upload of ${video.title}` }, 'Go on with the upload');
  if (video.state !== 'failed' && video.state !== 'cancelled') return '';
  const button = element('button', { type: 'button', 'aria-label': `Retry ${video.title}` }, 'Retry');
  button.addEventListener('click', () => {
    button.disabled = true;
    call('POST', `/videos/${video.id}/retry`).then(() => {
      awaited = true;
      return load();
    }).catch((err) => {
      button.disabled = false;
      say(message(err));
    });
  });
  return button;
}

function card(video: Video) {
  const facts = [date(video.createdAt)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.sizeBytes) facts.push(video.state === 'awaiting_upload' ? `a file of ${size(video.sizeBytes)}` : `${size(video.sizeBytes)} uploaded`);
  if (video.channel !== 'main') facts.push(`channel ${video.channel}`);
  const words = element('div', {},
    element('h2', {}, element('a', { href: video.links.watch }, video.title)),
    element('p', {}, element('span', { class: 'badge', 'data-visibility': video.visibility }, seen[video.visibility]), ' ',
      element('span', { class: video.state === 'failed' ? 'danger' : '' }, stateText(video, true))),
    element('p', { class: 'soft' }, facts.join(' · ')));
  if (video.state === 'processing') words.append(element('progress', { max: 100, value: video.progress.percent, 'aria-label': `Processing of ${video.title}` }));
  words.append(next(video));
  const picture = thumb(video);
  picture.setAttribute('aria-hidden', 'true');
  return element('li', { 'data-id': video.id, 'data-state': video.state }, picture, words);
}

async function ask() {
  const videos: Video[] = [];
  let token = '';
  for (let page = 0; page < pages; page++) {
    const answer = await call<VideoPage>('GET', `/videos?owner=me&limit=24${token ? `&pageToken=${encodeURIComponent(token)}` : ''}`);
    videos.push(...answer.items);
    token = answer.nextPageToken ?? '';
    if (!token) break;
  }
  return { videos, more: token !== '' };
}

// show replaces only what changed, so that focus and pictures stay.
function show(videos: Video[], more: boolean) {
  const list = $('videos');
  list.removeAttribute('aria-busy');
  for (const ghost of list.querySelectorAll('.ghost')) ghost.remove();
  const wanted = new Set(videos.map((v) => v.id));
  for (const [id, known] of cards) {
    if (wanted.has(id)) continue;
    known.item.remove();
    cards.delete(id);
  }
  videos.forEach((video, at) => {
    const looks = JSON.stringify([video.title, video.links, stateText(video, true), video.visibility, video.durationSeconds, video.sizeBytes]);
    let known = cards.get(video.id);
    if (known?.looks !== looks) {
      const item = card(video);
      if (known) known.item.replaceWith(item);
      known = { item, looks };
      cards.set(video.id, known);
    }
    if (list.children[at] !== known.item) list.insertBefore(known.item, list.children[at] ?? null);
  });
  const bytes = videos.reduce((sum, v) => sum + v.sizeBytes, 0);
  $('sum').textContent = videos.length
    ? `${more ? 'The newest ' : ''}${videos.length === 1 ? '1 video' : `${videos.length} videos`}, ${size(bytes)} of uploads. Nobody else sees this list.`
    : 'Nobody else sees this list.';
  $('more').hidden = !more;
  $('empty').hidden = videos.length > 0;
}

async function load() {
  // What has settled changes by somebody else only, so it is asked for rarely.
  if (!awaited && still++ % 10 !== 0) return;
  try {
    const { videos, more } = await ask();
    show(videos, more);
    say('');
    $('broken').hidden = true;
    awaited = videos.some((v) => !settled(v) && v.state !== 'awaiting_upload');
  } catch (err) {
    awaited = true;
    for (const ghost of $('videos').querySelectorAll('.ghost')) ghost.remove();
    $('videos').removeAttribute('aria-busy');
    $('broken').hidden = cards.size > 0; // what is shown stays
    say(err instanceof Problem ? message(err) : 'The service does not answer.');
  }
}

// Where nobody is signed in the page has no list.
if (document.getElementById('videos')) {
  $('videos').append(...Array.from({ length: 4 }, () => element('li', { class: 'ghost', 'aria-hidden': 'true' })));
  $('more').addEventListener('click', () => {
    pages++;
    awaited = true;
    void load();
  });
  void poll(3000, load);
}
