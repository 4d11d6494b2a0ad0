import { $, type Facets, type Video, type VideoPage, call, duration, element, message, poll, say, stateText } from './api';
import { thumb } from './thumb';

const list = $('videos');
interface Card { item: HTMLLIElement; looks: string }
const cards = new Map<string, Card>(); // id → card and what it shows
const filters = ['tag', 'channel', 'actor']; // what a search is narrowed down by
let query = words(new URLSearchParams(location.search));
let asked = 0; // how many lists were asked for: of two answers the later question's counts
let pages = 1;
let next = '';

function card(video: Video) {
  const facts = [stateText(video)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.channel !== 'main') facts.push(video.channel);
  const article = element('article', { class: 'card' },
    element('a', { href: video.links.watch }, thumb(video), element('h2', {}, video.title)),
    element('p', {}, facts.join(' · ')));
  if (video.state === 'processing') {
    article.append(element('progress', { 'aria-label': `Processing of ${video.title}` }));
  }
  return element('li', { 'data-id': video.id, 'data-state': video.state }, article);
}

// words is the part of a page's address that a search is made of; null for none.
function words(params: URLSearchParams) {
  const kept = new URLSearchParams();
  for (const name of ['q', ...filters]) {
    const value = params.get(name);
    if (value) kept.set(name, value);
  }
  if (ofChannel(kept) && params.get('sort') === 'title') kept.set('sort', 'title');
  return kept.size ? kept : null;
}

// A channel alone is a list of its own, in either order. With more it is a search.
function ofChannel(params: URLSearchParams | null) {
  return Boolean(params?.has('channel')) && !['q', 'tag', 'actor'].some((name) => params?.has(name));
}

// changed is the address of the same search with one part changed, or without it.
function changed(name: string, value: string) {
  const params = new URLSearchParams(query || '');
  if (value) params.set(name, value);
  else params.delete(name);
  return params.size ? `/?${params}` : '/';
}

function showCorrection(better: Record<string, string> | undefined) {
  $('mean').hidden = !better;
  if (!better) return;
  const typed = [...(query?.values() ?? [])].join(' ');
  const link = element('a', { href: `/?${new URLSearchParams(better)}` }, Object.values(better).join(' '));
  $('mean').replaceChildren(`Nothing holds “${typed}”. Did you mean `, link, '? This is what was found for it.');
}

// Counting reads up to a thousand rows, so it is done when somebody asks.
async function showFacets() {
  const params = new URLSearchParams(query ?? '');
  params.delete('sort');
  params.set('facets', 'true');
  params.set('limit', '1');
  const { facets } = await call<{ facets: Facets }>('GET', `/search?${params}`);
  const chips: (Node | string)[] = [];
  for (const [name, found] of [['tag', facets.tags], ['channel', facets.channels], ['actor', facets.actors]] as const) {
    if (query?.get(name)) continue;
    chips.push(...found.slice(0, 8).map((f) => element('a', { class: 'chip', href: changed(name, f.value) }, `${name}: ${f.value} (${f.count})`)));
  }
  if (!chips.length) chips.push('Nothing to narrow down by.');
  else if (!facets.complete) chips.push(`Counted over the newest ${facets.hitsCounted}.`);
  narrow.replaceWith(...chips);
}

async function load() {
  const mine = ++asked;
  const videos: Video[] = [];
  let token = '';
  const cost = { read: 0, requests: 0 };
  let better: Record<string, string> | undefined;
  for (let page = 0; page < pages; page++) {
    const params = new URLSearchParams(query || '');
    params.set('limit', '24');
    if (token) params.set('pageToken', token);
    const answer = await call<VideoPage>('GET', `${query && !ofChannel(query) ? '/search' : '/videos'}?${params}`);
    // What failed concerns its owner, who sees it in My videos.
    videos.push(...answer.items.filter((v) => v.playable || !['failed', 'cancelled'].includes(v.state)));
    token = answer.nextPageToken || '';
    better ||= answer.didYouMean;
    cost.read += answer.entitiesRead ?? 0;
    cost.requests += answer.requests ?? 0;
    if (!token) break;
  }
  if (mine !== asked) return; // somebody has typed on
  next = token;
  $('more').hidden = !next;
  show(videos);
  if (query) showCorrection(better);
  if (query && videos.length === 0) say('Nothing was found. Fewer words find more, and the beginning of a word is enough.');
  else if (query && !ofChannel(query)) say(`${videos.length}${next ? ' or more' : ''} found; ${cost.read} index rows read in ${cost.requests === 1 ? '1 request' : `${cost.requests} requests`}`);
  else say('');
  $('empty').hidden = videos.length > 0 || query !== null;
}

// Until the first answer there are grey cards, so that nothing jumps when it comes.
list.append(...Array.from({ length: 6 }, () => element('li', { class: 'ghost', 'aria-hidden': 'true' })));

// Replaces only the cards that changed, so that focus and pictures stay.
function show(videos: Video[]) {
  for (const ghost of list.querySelectorAll('.ghost')) ghost.remove();
  list.removeAttribute('aria-busy');
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
    if (list.children[at] !== known.item) list.insertBefore(known.item, list.children[at] ?? null);
  });
}

const narrow = element('button', { type: 'button' }, 'Narrow down');
narrow.addEventListener('click', () => { showFacets().catch((err) => say(message(err))); });

// showFilters offers to drop each part of the search and to add others.
function showFilters() {
  const params = query ?? new URLSearchParams();
  $('facets').replaceChildren(...filters.flatMap((name) => {
    const value = params.get(name);
    return value ? [element('a', { class: 'chip', href: changed(name, ''), 'aria-label': `Without ${name} ${value}` }, `${name}: ${value} ×`)] : [];
  }), narrow);
  $('facets').hidden = !query;
  $('introduction').hidden = query !== null;
  $('order').hidden = !ofChannel(query);
  order.value = params.get('sort') ?? '';
}

const order = $<HTMLSelectElement>('sort');
order.addEventListener('change', () => go(changed('sort', order.value)));

const q = $<HTMLInputElement>('q');
q.value = query?.get('q') ?? '';

// go shows another list without leaving the page.
function go(to: string, typed = false) {
  if (to === location.pathname + location.search) return;
  // Back leads to the list before; of a search that is being typed there is one entry.
  if (typed && query) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  open();
}

// open shows the list that the address names.
function open() {
  query = words(new URLSearchParams(location.search));
  pages = 1;
  $('mean').hidden = true;
  showFilters();
  load().catch((err) => say(message(err)));
}

addEventListener('popstate', () => {
  open();
  q.value = query?.get('q') ?? '';
});

const search = () => go(changed('q', q.value.trim()), true);

let typing = 0;
q.addEventListener('input', () => {
  clearTimeout(typing);
  typing = window.setTimeout(search, 250);
});
$('search').addEventListener('submit', (event) => {
  event.preventDefault();
  clearTimeout(typing);
  search();
});
showFilters();
$('more').addEventListener('click', () => {
  pages++;
  load().catch((err) => say(message(err)));
});
poll(3000, load);
