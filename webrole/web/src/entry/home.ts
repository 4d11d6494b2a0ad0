import { $, type Facets, type Video, type VideoPage, call, duration, message, onSubmit, plural, poll, say, stateText } from '../api';
import { readPages, setUpThumbs, thumb } from '../cards';
import { type Part, draw, html, onPress } from '../html';

const filters = ['tag', 'channel', 'actor']; // what a search is narrowed down by
let query = words(new URLSearchParams(location.search));
let asked = 0; // how many lists were asked for: of two answers the later question's counts
let pages = 1;

function card(video: Video) {
  const facts = [stateText(video)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.channel !== 'main') facts.push(video.channel);
  return html`<li id="video-${video.id}" data-id="${video.id}" data-state="${video.state}"><article class="card">
    <a href="${video.links.watch}">${thumb(video)}<h2>${video.title}</h2></a><p>${facts.join(' · ')}</p>
    ${video.state === 'processing' && html`<progress aria-label="Processing of ${video.title}"></progress>`}</article></li>`;
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
  draw($('mean'), html`Nothing holds “${typed}”. Did you mean <a href="/?${String(new URLSearchParams(better))}">${Object.values(better).join(' ')}</a>? This is what was found for it.`);
}

const chip = (name: string, value: string, text: string, label: Part = '') => html`<a class="chip" href="${changed(name, value)}" ${label}>${text}</a> `;

// Counting reads up to a thousand rows, so it is done on request.
async function showFacets() {
  const mine = query;
  const params = new URLSearchParams(query ?? '');
  params.delete('sort');
  params.set('facets', 'true');
  params.set('limit', '1');
  const { facets } = await call<{ facets: Facets }>('GET', `/search?${params}`);
  if (mine !== query) return; // the user has typed on
  const chips: Part[] = ([['tag', facets.tags], ['channel', facets.channels], ['actor', facets.actors]] as const)
    .filter(([name]) => !query?.get(name))
    .flatMap(([name, found]) => found.slice(0, 8).map((f) => chip(name, f.value, `${name}: ${f.value} (${f.count})`)));
  if (!chips.length) chips.push('Nothing to narrow down by.');
  else if (!facets.complete) chips.push(`Counted over the newest ${facets.hitsCounted}.`);
  showFilters(html`${chips}`);
}

async function load() {
  const mine = ++asked;
  const videos: Video[] = [];
  const cost = { read: 0, requests: 0 };
  let better: VideoPage['didYouMean'];
  const token = await readPages(query && !ofChannel(query) ? '/search' : '/videos', query ?? new URLSearchParams(), pages, (page) => {
    // What failed concerns its owner, who sees it in My videos.
    videos.push(...page.items.filter((v) => v.playable || !['failed', 'cancelled'].includes(v.state)));
    better ||= page.didYouMean;
    cost.read += page.entitiesRead ?? 0;
    cost.requests += page.requests ?? 0;
  });
  if (mine !== asked) return; // the user has typed on
  $('more').hidden = !token;
  draw($('videos'), html`${videos.map(card)}`);
  $('videos').removeAttribute('aria-busy');
  if (query) showCorrection(better);
  if (query && videos.length === 0) say('Nothing was found. Fewer words find more, and the beginning of a word is enough.');
  else if (query && !ofChannel(query)) say(`${videos.length}${token ? ' or more' : ''} found; ${cost.read} index rows read in ${plural(cost.requests, 'request')}`);
  else say('');
  $('empty').hidden = videos.length > 0 || query !== null;
}

onPress({ narrow: () => { showFacets().catch((err) => say(message(err))); } });

// showFilters offers to drop each part of the search and to add others.
function showFilters(others = html`<button type="button" data-press="narrow">Narrow down</button>`) {
  const params = query ?? new URLSearchParams();
  draw($('facets'), html`${filters.map((name) => {
    const value = params.get(name);
    return value ? chip(name, '', `${name}: ${value} ×`, html`aria-label="Without ${name} ${value}"`) : '';
  })}${others}`);
  $('facets').hidden = !query || $('search').hidden; // no search, no facets
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
onSubmit('search', () => {
  clearTimeout(typing);
  search();
});
showFilters();
draw($('videos'), html`${Array(6).fill(html`<li class="ghost" aria-hidden="true"></li>`)}`); // below the filters, which would push them down
$('more').addEventListener('click', () => {
  pages++;
  load().catch((err) => say(message(err)));
});
setUpThumbs($('videos'));
poll(3000, load);
