// Videos as a list of cards, read from the API page by page.
import { type Video, type VideoPage, call, element } from './api';

export class Cards {
  private readonly known = new Map<string, { item: HTMLLIElement; looks: string }>();

  // Until the first answer there are grey cards, so that nothing jumps when it comes.
  constructor(private readonly list: HTMLElement, private readonly make: (video: Video) => HTMLLIElement, ghosts: number) {
    list.append(...Array.from({ length: ghosts }, () => element('li', { class: 'ghost', 'aria-hidden': 'true' })));
  }

  get empty() { return this.known.size === 0; }

  // settle removes the grey cards.
  settle() {
    for (const ghost of this.list.querySelectorAll('.ghost')) ghost.remove();
    this.list.removeAttribute('aria-busy');
  }

  // show replaces only the cards that changed, so that focus and pictures stay.
  show(videos: Video[]) {
    this.settle();
    const wanted = new Set(videos.map((v) => v.id));
    for (const [id, { item }] of this.known) {
      if (wanted.has(id)) continue;
      item.remove();
      this.known.delete(id);
    }
    videos.forEach((video, at) => {
      const known = this.known.get(video.id);
      let item = this.make(video);
      const looks = item.outerHTML;
      if (known?.looks === looks) item = known.item;
      else known?.item.replaceWith(item);
      this.known.set(video.id, { item, looks });
      if (this.list.children[at] !== item) this.list.insertBefore(item, this.list.children[at] ?? null);
    });
  }
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
