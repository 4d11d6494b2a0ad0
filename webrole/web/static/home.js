import { $, call, duration, element, poll, say, stateText } from './api.js';

const list = $('videos');
const cards = new Map(); // id → card and what it shows
let query = new URLSearchParams(location.search).get('q') || '';
let pages = 1;
let next = '';

function card(video) {
  const thumb = element('div', { class: 'thumb' });
  if (video.links.poster) {
    const image = element('img', { src: video.links.poster, alt: '', loading: 'lazy' });
    image.addEventListener('error', () => image.remove(), { once: true });
    thumb.append(image);
  } else {
    thumb.append(element('span', {}, video.state === 'failed' ? 'No picture' : 'No picture yet'));
  }
  const facts = [stateText(video)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.channel !== 'main') facts.push(video.channel);
  const item = element('li', { 'data-id': video.id, 'data-state': video.state }, element('article', { class: 'card' },
    element('a', { href: video.links.watch }, thumb, element('h2', {}, video.title)),
    element('p', {}, facts.join(' · '))));
  if (video.state === 'processing') {
    item.firstChild.append(element('progress', { max: 100, value: video.progress.percent, 'aria-label': `Processing of ${video.title}` }));
  }
  return item;
}

async function load() {
  const asked = query;
  const videos = [];
  let token = '';
  let cost = null;
  for (let page = 0; page < pages; page++) {
    const params = new URLSearchParams({ limit: 24 });
    if (token) params.set('pageToken', token);
    if (asked) params.set('q', asked);
    const answer = await call('GET', `${asked ? '/search' : '/videos'}?${params}`);
    videos.push(...answer.items);
    token = answer.nextPageToken || '';
    if (asked) cost = { read: (cost?.read || 0) + answer.entitiesRead, requests: (cost?.requests || 0) + answer.requests };
    if (!token) break;
  }
  if (asked !== query) return;
  next = token;
  $('more').hidden = !next;
  show(videos);
  if (asked) say(`${videos.length}${next ? ' or more' : ''} found; ${cost.read} index rows read in ${cost.requests} requests`);
  else say(videos.length ? '' : 'There are no videos yet. Upload one.');
}

// Replaces only the cards that changed, so that focus and pictures stay.
function show(videos) {
  const wanted = new Set(videos.map((v) => v.id));
  for (const [id, known] of cards) {
    if (!wanted.has(id)) {
      known.item.remove();
      cards.delete(id);
    }
  }
  videos.forEach((video, at) => {
    const looks = JSON.stringify([video.title, video.links, stateText(video), video.durationSeconds, video.channel]);
    let known = cards.get(video.id);
    if (known?.looks !== looks) {
      const item = card(video);
      if (known) known.item.replaceWith(item);
      known = { item, looks };
      cards.set(video.id, known);
    }
    if (list.children[at] !== known.item) list.insertBefore(known.item, list.children[at] || null);
  });
}

$('q').value = query;
$('search').addEventListener('submit', (event) => {
  event.preventDefault();
  query = $('q').value.trim();
  pages = 1;
  history.replaceState(null, '', query ? `/?q=${encodeURIComponent(query)}` : '/');
  load().catch((err) => say(err.message));
});
$('more').addEventListener('click', () => {
  pages++;
  load().catch((err) => say(err.message));
});
poll(3000, load);
