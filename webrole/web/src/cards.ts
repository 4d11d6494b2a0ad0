// Videos as a list, read from the API page by page. The picture of each is its poster, and
// the moment that the pointer is at.
import { type Video, type VideoPage, call, message } from './api';
import { html } from './html';
import { paint, tileAt } from './storyboard';

const broken = new Set<string>(); // posters that do not come

export function thumb({ state, durationSeconds, links: { poster, storyboard } }: Video) {
  const picture = poster && !broken.has(poster) ? html`<img src="${poster}" alt="" loading="lazy">` : html`<span>${state === 'failed' ? 'No picture' : 'No picture yet'}</span>`;
  return html`<div class="thumb" data-storyboard="${storyboard}" data-seconds="${durationSeconds}">${picture}<div class="tile skim" hidden data-own></div></div>`;
}

// setUpThumbs makes those in a list show the moment of a video that the pointer is at, from
// left to right.
export function setUpThumbs(list: HTMLElement) {
  const find = (event: Event) => (event.target as Element).closest<HTMLElement>('.thumb');
  list.addEventListener('error', ({ target }) => {
    if (!(target instanceof HTMLImageElement)) return;
    broken.add(target.getAttribute('src') ?? '');
    target.remove();
  }, true);
  const skim = async (thumb: HTMLElement, x: number) => {
    const box = thumb.getBoundingClientRect();
    const tile = await tileAt(thumb.dataset.storyboard, (x - box.left) / box.width * Number(thumb.dataset.seconds));
    const picture = thumb.querySelector<HTMLElement>('.skim');
    if (!tile || !picture || !thumb.matches(':hover')) return;
    paint(picture, tile);
    picture.style.scale = String(box.width / tile.width);
    picture.hidden = false;
  };
  list.addEventListener('pointermove', (event) => {
    const thumb = find(event);
    if (thumb) skim(thumb, event.clientX).catch((err) => console.info('storyboard', message(err)));
  });
  list.addEventListener('pointerout', (event) => {
    const thumb = find(event);
    if (!thumb?.contains(event.relatedTarget as Node | null)) thumb?.querySelector('.skim')?.toggleAttribute('hidden', true);
  });
}

// readPages reads so many pages of a list, and returns the token of the next; empty after
// the last.
export async function readPages(path: string, params: URLSearchParams, pages: number, take: (page: VideoPage) => void): Promise<string> {
  const query = new URLSearchParams(params);
  query.set('limit', '24');
  let token = '';
  for (let page = 0; page < pages; page++) {
    if (token) query.set('pageToken', token);
    const answer = await call<VideoPage>('GET', `${path}?${query}`);
    take(answer);
    token = answer.nextPageToken ?? '';
    if (!token) break;
  }
  return token;
}
