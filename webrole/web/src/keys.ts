// The keys of a player, wherever on its page the focus is: Space or k plays and pauses,
// the arrows go five seconds on or back, m is for the sound and f for the whole screen.
import { message } from './api';
import type { Player } from './player';
import type { Scrub } from './scrub';

// These use the keys themselves.
const usesKeys = 'input, textarea, select, button, a, summary, video, [role=slider], [role=grid], dialog';

export function setUp(player: Player, scrub: Scrub) {
  const film = player.element;
  const toggleFullScreen = () => (document.fullscreenElement ? document.exitFullscreen() : film.requestFullscreen());
  const acts: Record<string, () => void> = {
    ' ': () => player.toggle(),
    k: () => player.toggle(),
    m: () => { film.muted = !film.muted; },
    f: () => { toggleFullScreen().catch((err) => console.info('full screen', message(err))); },
    ArrowLeft: () => scrub.seek(Math.max(0, film.currentTime - 5)),
    ArrowRight: () => scrub.seek(film.currentTime + 5),
  };
  document.addEventListener('keydown', (event) => {
    const act = acts[event.key];
    if (!act || film.hidden || event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).closest(usesKeys)) return;
    event.preventDefault();
    act();
  });
}
