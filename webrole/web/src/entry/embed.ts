// The page for frames of other sites: the picture, and nothing else.
import { $, Problem, type Video, call, poll, settled } from '../api';
import { Player } from '../player';

const id = $('video').dataset.id ?? '';
const tell = (text: string) => { $('waiting').textContent = text; };
const element = $<HTMLVideoElement>('player');
element.autoplay = location.hash === '#play'; // the user pressed a button beside the frame
const player = new Player(element, tell);

void poll(2000, async () => {
  try {
    const video = await call<Video>('GET', `/videos/${id}`);
    $('waiting').hidden = Boolean(video.links.master);
    player.update(video);
    if (!video.links.master) tell(video.state === 'failed' ? 'There is nothing to watch.' : 'It can be watched as soon as its first seconds are processed.');
    $<HTMLAnchorElement>('title').textContent = video.title;
    return settled(video);
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 404) throw err;
    // The same words for both: a stranger learns nothing. In a frame of another site an
    // owner is a stranger, too, so the way to the page is left.
    tell('There is no such video any more, or it is private. Its owner can watch it on its own page.');
    $<HTMLAnchorElement>('title').textContent = 'Open its page';
    player.stop();
    return true;
  }
});
