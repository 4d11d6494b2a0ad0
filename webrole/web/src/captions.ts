// The captions of a video on its page: a list of languages, and a form that adds one.
import { $, type List, Problem, call, during, field, message, onSubmit, say, sleep, type Schemas } from './api';
import { draw, html, onPress } from './html';

type Captions = Schemas['Captions'];

// chooser is a list of what the player can show: its own menu is hard to reach without a
// pointer, and differs from browser to browser. It is called with the languages there are.
function chooser(player: HTMLVideoElement) {
  const choice = $<HTMLSelectElement>('subtitles');
  let there: string[] = [];
  const tracks = () => [...player.textTracks].filter((t) => t.kind !== 'metadata' && there.includes(t.language));
  const show = () => {
    const list = tracks();
    draw(choice, html`<option value="">Off</option>${list.map((t) => html`<option value="${t.language}">${t.label || t.language}</option>`)}`);
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
    draw($('languages'), html`${items.map((c) => html`<li id="captions-${c.language}">${c.links.media ? html`<a href="${c.links.media}" hreflang="${c.language}">${c.name}</a>` : c.name} ${about(c)}
      <button type="button" class="danger" data-press="remove-captions" data-of="${c.language}" aria-label="Remove captions ${c.name}">Remove</button></li>`)}`);
    return items.some((c) => c.state === 'queued' || c.state === 'running');
  }

  onPress({ 'remove-captions': (language, button) => during(button, async () => { await call('DELETE', `/videos/${id}/captions/${language}`); await load(); }) });
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
