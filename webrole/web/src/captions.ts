// The captions of a video on its page: a list of languages, and a form that adds one.
import { $, type Captions, type List, Problem, call, element, field, message, onSubmit, say, sleep } from './api';

// chooser is a list of what the player can show: its own menu is hard to reach without a
// pointer, and differs from browser to browser. It is called with the languages there are.
function chooser(player: HTMLVideoElement) {
  const choice = $<HTMLSelectElement>('subtitles');
  let there: string[] = [];
  const tracks = () => [...player.textTracks].filter((t) => t.kind !== 'metadata' && there.includes(t.language));
  const show = () => {
    const list = tracks();
    choice.replaceChildren(element('option', { value: '' }, 'Off'), ...list.map((t) => element('option', { value: t.language }, t.label || t.language)));
    choice.value = list.find((t) => t.mode === 'showing')?.language ?? '';
    choice.hidden = $('subtitles-label').hidden = list.length === 0;
  };
  for (const kind of ['addtrack', 'removetrack', 'change']) player.textTracks.addEventListener(kind, show);
  choice.addEventListener('change', () => {
    for (const track of tracks()) track.mode = track.language === choice.value ? 'showing' : 'disabled';
  });
  return (languages: string[]) => {
    there = languages;
    show();
  };
}

// about is what there is to know of captions beside their language.
function about(c: Captions): string {
  if (c.error) return c.error.detail;
  if (c.state === 'failed') return 'failed';
  if (c.state !== 'ready') return 'is being made…';
  return [
    c.charset && c.charset !== 'utf-8' ? `read as ${c.charset}` : '',
    c.leftOut ? `${c.leftOut} of the cues left out or cut: they end before they begin, or are too long` : '',
  ].filter(Boolean).join(', ');
}

// setUp shows what there is. changed is called when there is one more or one less to
// choose from: a player reads the list of them once.
export function setUp(id: string, player: HTMLVideoElement, changed: () => void) {
  const offer = chooser(player);
  let offered: string | null = null;

  // load returns whether any are still being made.
  async function load(): Promise<boolean> {
    const { items } = await call<List<Captions>>('GET', `/videos/${id}/captions`);
    const languages = items.filter((c) => c.links.media).map((c) => c.language);
    const now = languages.join();
    offer(languages);
    if (offered !== null && offered !== now) changed();
    offered = now;
    $('languages').replaceChildren(...items.map((c) => {
      const remove = element('button', { type: 'button', class: 'danger', 'aria-label': `Remove captions ${c.name}` }, 'Remove');
      remove.onclick = () => { call('DELETE', `/videos/${id}/captions/${c.language}`).then(load).catch((err) => say(message(err))); };
      return element('li', {}, c.links.media ? element('a', { href: c.links.media, hreflang: c.language }, c.name) : c.name,
        ` ${about(c)} `, remove);
    }));
    return items.some((c) => c.state === 'queued' || c.state === 'running');
  }

  onSubmit('send-captions', async (form) => {
    const file = field('captions-file').files?.[0];
    if (!file) return;
    const type = file.name.toLowerCase().endsWith('.vtt') ? 'text/vtt' : 'application/x-subrip';
    await call('POST', `/videos/${id}/captions/${encodeURIComponent(field('language').value.trim())}`, { body: file.slice(0, file.size, type) });
    form.reset();
    while (await load()) await sleep(500);
  });
  load().catch((err) => {
    if (!(err instanceof Problem && err.status === 404)) say(message(err)); // the page itself says that there is no video
  });
}
