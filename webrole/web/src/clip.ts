// Makes a clip of what is shown: a file of its own, with a link that one can pass on.
import { $, call, onSubmit, sleep, type Schemas } from './api';
import { draw, html } from './html';

type Clip = Schemas['Clip'];

// makeClip asks for a clip and waits until it is there. It returns the address of its file.
export async function makeClip(path: string, body: object): Promise<string> {
  let clip = await call<Clip>('POST', path, { body });
  while (clip.state === 'queued' || clip.state === 'running') {
    await sleep(400);
    clip = await call<Clip>('GET', clip.links.self.replace(/^\/api\/v1/, ''));
  }
  if (!clip.links.media) throw new Error(clip.error?.detail ?? 'The clip could not be made.');
  return clip.links.media;
}

// setUp returns a function that is to be told whether clips can be made now.
export function setUp(id: string, player: HTMLVideoElement) {
  const button = $<HTMLFormElement>('make-clip').querySelector('button')!;
  const from = $<HTMLInputElement>('clip-from');
  const said = $('clip-made');
  const length = $<HTMLInputElement>('clip-length');
  $('clip').addEventListener('toggle', () => { // the moment that is shown, or the last that is long enough
    const last = Number.isFinite(player.duration) ? player.duration - Number(length.value) : player.currentTime;
    from.value = Math.max(0, Math.min(player.currentTime, last)).toFixed(1);
  });
  onSubmit('make-clip', async () => {
    said.textContent = 'Making it…';
    const media = await makeClip(`/videos/${id}/clips`, { startSeconds: Number(from.value), durationSeconds: Number(length.value) });
    draw(said, html`<a href="${media}">Watch the clip</a>, or <a href="${media}" download="clip.mp4">download it</a>.`);
  }, (text) => { said.textContent = text; });
  return (ready: boolean) => {
    if (ready && button.disabled) said.textContent = '';
    button.disabled = !ready;
  };
}
