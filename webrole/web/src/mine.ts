// One's own videos, whatever their state and visibility, newest first.
import { $, Problem, type Video, bytes, call, duration, element, message, plural, poll, say, settled, stateText } from './api';
import { Cards, readPages } from './cards';
import { thumb } from './thumb';

const seen = { public: 'Public', unlisted: 'Anyone with the link', private: 'Private' };
let pages = 1;
let still = 0; // asked, while nothing changes by itself
let awaited = true; // something changes by itself, or the list is not here yet
let reload = () => {}; // asks for the list now

const date = (text: string) => new Date(text).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });

// next is what its owner may do about a video that does not go on by itself.
function next(video: Video) {
  if (video.state === 'awaiting_upload') return element('a', { class: 'button', href: `/upload?video=${video.id}`, 'aria-label': `Go on with the upload of ${video.title}` }, 'Go on with the upload');
  if (video.state !== 'failed' && video.state !== 'cancelled') return '';
  const button = element('button', { type: 'button', 'aria-label': `Retry ${video.title}` }, 'Retry');
  button.addEventListener('click', () => {
    button.disabled = true;
    call('POST', `/videos/${video.id}/retry`).then(() => reload()).catch((err) => {
      button.disabled = false;
      say(message(err));
    });
  });
  return button;
}

function card(video: Video) {
  const facts = [date(video.createdAt)];
  if (video.durationSeconds) facts.push(duration(video.durationSeconds));
  if (video.sizeBytes) facts.push(video.state === 'awaiting_upload' ? `a file of ${bytes(video.sizeBytes)}` : `${bytes(video.sizeBytes)} uploaded`);
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

function sum(videos: Video[], more: boolean) {
  const size = videos.reduce((all, v) => all + v.sizeBytes, 0);
  $('sum').textContent = `${videos.length ? `${more ? 'The newest ' : ''}${plural(videos.length, 'video')}, ${bytes(size)} of uploads. ` : ''}Nobody else sees this list.`;
  $('more').hidden = !more;
  $('empty').hidden = videos.length > 0;
}

async function load(cards: Cards) {
  // A settled video changes only when another user acts, so it is asked for rarely.
  if (!awaited && still++ % 10 !== 0) return;
  try {
    const videos: Video[] = [];
    const more = await readPages('/videos', new URLSearchParams({ owner: 'me' }), pages, (page) => videos.push(...page.items));
    cards.show(videos);
    sum(videos, more !== '');
    say('');
    $('broken').hidden = true;
    awaited = videos.some((v) => !settled(v) && v.state !== 'awaiting_upload');
  } catch (err) {
    awaited = true;
    cards.settle();
    $('broken').hidden = !cards.empty; // what is shown stays
    say(err instanceof Problem ? message(err) : 'The service does not answer.');
  }
}

// Without a signed-in user the page has no list.
if (document.getElementById('videos')) {
  const cards = new Cards($('videos'), card, 4);
  $('more').addEventListener('click', () => {
    pages++;
    reload();
  });
  reload = () => {
    awaited = true;
    void load(cards);
  };
  void poll(3000, () => load(cards));
}
