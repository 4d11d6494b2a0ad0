// Changes what a video is called, in place. Only what was changed in the form is sent,
// with the version that was read (If-Match): who edits another field loses nothing, and
// no edit of the same field is overwritten unseen.
import { $, Problem, type Video, call, onSubmit } from './api';
import { suggestAll } from './suggest';
import { setUp as setUpRace } from './tie';

const field = (id: string) => $<HTMLInputElement>(`edit-${id}`);
const lists = ['actors', 'directors', 'tags'] as const;
const names = ['title', 'description', 'channel', 'visibility', ...lists] as const;
type Name = (typeof names)[number];

const text = (v: Video, name: Name): string => [v[name]].flat().join(', ');
const split = (list: string) => list.split(',').map((s) => s.trim()).filter(Boolean);

// setUp makes the button open the form. saved gets the video as it is after a change.
export function setUp(read: () => Video, saved: (v: Video) => void) {
  const dialog = $<HTMLDialogElement>('edit');
  let before: Video; // as the form was filled
  let version: Video; // the newest that we know of
  const raceFields = setUpRace('edit-race-');

  suggestAll(field);
  const trouble = (words: string) => { $('edit-trouble').textContent = words; };
  const changed = () => names.filter((name) => field(name).value.trim() !== text(before, name));

  async function save() {
    const mine = changed();
    const body: Record<string, unknown> = Object.fromEntries(mine.map((name) => {
      const value = field(name).value.trim();
      return [name, (lists as readonly string[]).includes(name) ? split(value) : value];
    }));
    Object.assign(body, raceFields.changed());
    try {
      saved(await call<Video>('PATCH', `/videos/${before.id}`, { body, headers: { 'If-Match': version.etag } }));
      dialog.close();
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 412) throw err;
      const known = version;
      version = await call<Video>('GET', `/videos/${before.id}`);
      const both = mine.filter((name) => text(version, name) !== text(known, name));
      if (!both.length) return save(); // another field, or a worker's news
      trouble(`Somebody has changed the same meanwhile: ${both.map((name) => `${name} is now “${text(version, name)}”`).join('; ')}. Save again to replace that, or close to keep it.`);
    }
  }

  $('edit-open').addEventListener('click', () => {
    before = version = read();
    for (const name of names) field(name).value = text(before, name);
    raceFields.show(before);
    trouble('');
    dialog.showModal();
  });
  $('edit-close').addEventListener('click', () => dialog.close());
  onSubmit('edit-form', save, trouble);
}
