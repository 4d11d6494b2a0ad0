// One's own videos, whatever their state and visibility, newest first.
import { $, Problem, type Video, bytes, call, duration, during, message, plural, poll, say, settled, stateText } from '../api';
import { readPages, setUpThumbs, thumb } from '../cards';
import { draw, html, onPress } from '../html';

const seen = { public: 'Public', unlisted: 'Anyone with the link', private: 'Private' };
let pages = 1;
let still = 0; // asked, while nothing changes by itself
let awaited = true; // something changes by itself, or the list is not here yet
let shown: Video[] = [];

const date = (text: string) => new Date(text).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

// next is what its owner may do about a video that does not go on by itself.
function next({ id, state, title }: Video) {
  if (state === 'awaiting_upload') return html`<a class="button" href="/upload?video=${id}" aria-label="Go on with the upload of ${title}">Go on with the upload</a>`;
  return ['failed', 'cancelled'].includes(state) && html`<button type="button" data-press="retry" data-of="${id}" aria-label="Retry ${title}">Retry</button>`;
}

function card(video: Video) {
  const facts = [date(video.createdAt)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.sizeBytes) facts.push(video.state === 'awaiting_upload' ? `a file of ${bytes(video.sizeBytes)}` : `${bytes(video.sizeBytes)} uploaded`);
  if (video.channel !== 'main') facts.push(`channel ${video.channel}`);
  return html`<li id="video-${video.id}" data-id="${video.id}" data-state="${video.state}"><div aria-hidden="true">${thumb(video)}</div><div>
    <h2><a href="${video.links.watch}">${video.title}</a></h2>
    <p><span class="badge" data-visibility="${video.visibility}">${seen[video.visibility]}</span> <span class="${video.state === 'failed' && 'danger'}">${stateText(video, true)}</span></p>
    <p class="soft">${facts.join(' · ')}</p>
    ${video.state === 'processing' && html`<progress max="100" value="${video.progress.percent}" aria-label="Processing of ${video.title}"></progress>`}${next(video)}</div></li>`;
}

function show(more: boolean) {
  draw($('videos'), html`${shown.map(card)}`);
  $('videos').removeAttribute('aria-busy');
  const size = shown.reduce((all, v) => all + v.sizeBytes, 0);
  $('sum').textContent = `${shown.length ? `${more ? 'The newest ' : ''}${plural(shown.length, 'video')}, ${bytes(size)} of uploads. ` : ''}Only you see this list.`;
  $('more').hidden = !more;
}

async function load() {
  // A settled video changes only when another user acts, so it is asked for rarely.
  if (!awaited && still++ % 10 !== 0) return;
  try {
    const videos: Video[] = [];
    const more = await readPages('/videos', new URLSearchParams({ owner: 'me' }), pages, (page) => videos.push(...page.items));
    shown = videos;
    show(more !== '');
    say('');
    $('empty').hidden = videos.length > 0;
    $('broken').hidden = true;
    awaited = videos.some((v) => !settled(v) && v.state !== 'awaiting_upload');
  } catch (err) {
    awaited = true;
    if (!shown.length) draw($('videos'), html``); // what is shown stays
    $('broken').hidden = shown.length > 0;
    say(err instanceof Problem ? message(err) : 'The service does not answer.');
  }
}

function reload() {
  awaited = true;
  void load();
}

// Without a signed-in user the page has no list.
if (document.getElementById('videos')) {
  setUpThumbs($('videos'));
  onPress({ retry: (id, button) => during(button, async () => { await call('POST', `/videos/${id}/retry`); reload(); }) });
  $('more').addEventListener('click', () => {
    pages++;
    reload();
  });
  void poll(3000, load);
}
