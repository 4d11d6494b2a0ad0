// The picture of a video in a list: its poster, and the moment that the pointer is at.
import { type Video, element, message } from './api';
import { paint, read } from './storyboard';

export function thumb(video: Video) {
  const box = element('div', { class: 'thumb' });
  if (video.links.poster) {
    const image = element('img', { src: video.links.poster, alt: '', loading: 'lazy' });
    image.addEventListener('error', () => image.remove(), { once: true });
    box.append(image);
  } else {
    box.append(element('span', {}, video.state === 'failed' ? 'No picture' : 'No picture yet'));
  }
  if (video.links.storyboard) skim(box, video.links.storyboard, video.durationSeconds);
  return box;
}

// skim shows the moment of a video that the pointer is at, from left to right.
function skim(thumb: HTMLElement, url: string, length: number) {
  const picture = element('div', { class: 'tile skim', hidden: true });
  let tiles: Awaited<ReturnType<typeof read>> | null = null;
  thumb.addEventListener('pointerenter', () => {
    if (tiles) return;
    tiles = []; // asked for once
    read(url).then((found) => { tiles = found; }).catch((err) => console.info('storyboard', message(err)));
  });
  thumb.addEventListener('pointermove', (event) => {
    const box = thumb.getBoundingClientRect();
    const second = (event.clientX - box.left) / box.width * length;
    const tile = tiles?.find((t) => second >= t.from && second < t.to);
    if (!tile) return;
    paint(picture, tile);
    picture.style.scale = String(box.width / tile.width);
    picture.hidden = false;
  });
  thumb.addEventListener('pointerleave', () => { picture.hidden = true; });
  thumb.append(picture);
}
