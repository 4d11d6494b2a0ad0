// How often a video was watched, asked once it plays.
import { $, call, message, plural } from './api';
import { add, html } from './html';

export function setUp(id: string, player: HTMLVideoElement) {
  async function show() {
    const { total } = await call<{ total: number }>('GET', `/videos/${id}/views`);
    if (total > 0) add($('description'), html`<p id="views" class="soft">${plural(total, 'view')}</p>`, 'beforebegin');
  }
  player.addEventListener('playing', () => { show().catch((err) => console.info('views', message(err))); }, { once: true });
}
