// Goes to a second of a video that is being made, also when that part is not made yet:
// the server has it made before the others, and it plays as soon as it is there.
import { $, call, duration, message, poll, say, type Schemas } from './api';
import type { Player } from './player';
import type { Scrub } from './scrub';

type Seek = Schemas['Seek'];

// ahead is how long before the end of what is made the next parts are asked for, in
// seconds: about what a chunk takes.
const ahead = 30;

// setUp makes the bar go where nothing is made yet. What it returns is to be called when the bar
// was updated: it says how far the wanted part is, and improves what plays.
export function setUp(id: string, player: Player, scrub: Scrub) {
  const note = $('seeking');
  let wanted: number | null = null;
  let how = ''; // what the page says of the wanted part
  let left = false; // the playlist is one that begins somewhere else
  let preview = false; // what plays has the smallest rendition only
  let asked = -1; // the end that was asked for last

  const find = (at: number) => call<Seek>('POST', `/videos/${id}/seek`, { body: { at } });

  function want(second: number | null) {
    wanted = second;
    scrub.mark(second);
    if (second === null) note.hidden = true;
  }
  $('seeking-stay').addEventListener('click', () => {
    want(null);
    player.element.focus();
  });

  async function to(second: number) {
    if (second !== wanted) how = 'it is asked for';
    want(second);
    const found = await find(second);
    if (wanted !== second) return; // another one meanwhile
    if (!found.made) return tell();
    want(null);
    open(found, second);
  }

  function open(found: Seek, second: number) {
    left = found.from > 0;
    preview = found.preview;
    player.open(found.master, second, found.from);
  }

  // improve goes on in all renditions, once the part that plays is there in all.
  async function improve() {
    const film = player.element;
    if (film.seeking || film.currentTime < player.begins) return; // it is not there yet
    const found = await find(film.currentTime);
    if (wanted === null && preview && found.made && !found.preview) open(found, film.currentTime);
  }

  function tell() {
    if (wanted === null) return;
    note.hidden = false;
    $('seeking-words').textContent = `${duration(wanted)} is made before the rest and plays as soon as it is there: ${how}.`;
  }

  // A viewer who went ahead meets parts that are not made: they are asked for in time.
  player.element.addEventListener('timeupdate', () => {
    const { seekable, currentTime } = player.element;
    const end = seekable.length ? seekable.end(seekable.length - 1) : 0;
    if (!left || wanted !== null || end === asked || end - currentTime > ahead) return;
    asked = end;
    find(end + 0.1).catch((err) => console.info('seek', message(err)));
  });

  // The browser's own controls know nothing of what the playlist leaves out.
  player.element.addEventListener('seeking', () => {
    const at = player.element.currentTime;
    if (left && wanted === null && at < player.begins) to(at).catch((err) => console.info('seek', message(err)));
  });

  // A viewer waits: this is polled more often than the rest of the page.
  void poll(500, async () => {
    if (wanted !== null) await to(wanted);
  });

  scrub.goTo = (second) => { to(second).catch((err) => say(message(err))); };
  return async () => {
    if (wanted === null) return preview ? improve() : undefined;
    how = scrub.words(wanted);
    tell();
  };
}
