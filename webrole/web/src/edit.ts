// Changes what a video is called, in place. The version that was read goes along with
// the request (If-Match), so nobody overwrites what somebody else has written since.
import { $, Problem, type Video, call, message } from './api';

const field = (id: string) => $<HTMLInputElement>(id);
const texts = ['title', 'description', 'channel'] as const;
const lists = ['actors', 'directors', 'tags'] as const;

const split = (text: string) => text.split(',').map((s) => s.trim()).filter(Boolean);

// setUp makes the button open the form. saved gets the video as it is after a change.
export function setUp(read: () => Video, saved: (v: Video) => void) {
  const dialog = $<HTMLDialogElement>('edit');
  let opened: Video;

  const fill = (v: Video) => {
    opened = v;
    for (const name of texts) field(`edit-${name}`).value = v[name];
    for (const name of lists) field(`edit-${name}`).value = v[name].join(', ');
    field('edit-visibility').value = v.visibility;
  };
  const trouble = (text: string) => { $('edit-trouble').textContent = text; };

  $('edit-open').addEventListener('click', () => {
    fill(read());
    trouble('');
    dialog.showModal();
  });
  $('edit-close').addEventListener('click', () => dialog.close());
  $<HTMLFormElement>('edit-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const body: Record<string, unknown> = { visibility: field('edit-visibility').value };
    for (const name of texts) body[name] = field(`edit-${name}`).value.trim();
    for (const name of lists) body[name] = split(field(`edit-${name}`).value);
    try {
      saved(await call<Video>('PATCH', `/videos/${opened.id}`, { body, headers: { 'If-Match': opened.etag } }));
      dialog.close();
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 412) {
        trouble(message(err));
        return;
      }
      // What is in the form stays there. Sending it again is a decision now, and not
      // an accident.
      const theirs = await call<Video>('GET', `/videos/${opened.id}`);
      const differ = [...texts, ...lists].filter((name) => String(theirs[name]) !== String(opened[name]));
      opened = theirs;
      trouble(differ.length
        ? `Somebody has changed this video meanwhile: ${differ.map((name) => `${name} is now “${String(theirs[name])}”`).join('; ')}. Save again to replace that, or close to keep it.`
        : 'The video has changed meanwhile, but nothing that you see here. Save again.');
    }
  });
}
