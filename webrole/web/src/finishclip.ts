// The button that makes the clip of a runner's finish, and then its links.
import { copy, message, say, type Schemas } from './api';
import { makeClip } from './clip';
import { type Html, html, onPress } from './html';

type Registration = Schemas['Registration'];

// setUp asks for clips at an address below that of the registrations. show draws the runners again.
export function setUp(registrations: () => string, show: () => void) {
  const clips = new Map<number, string>(); // their addresses by bib; empty while one is being made
  const asked = new Map<number, Registration>(); // runners that were offered one

  // offer begins what is read aloud with what is seen, because that is what people say who
  // speak to a page.
  function offer(runner: Registration): Html {
    const { bib, name } = runner;
    asked.set(bib, runner);
    const media = clips.get(bib);
    const label = (text: string) => html`aria-label="${text}: finish of ${name}"`;
    if (media) {
      return html`<span class="clip"><a class="button" href="${media}" ${label('Watch the clip')}>Watch the clip</a> <a class="button" href="${media}" download="finish-${bib}.mp4" ${label('Download')}>Download</a>
        <button type="button" data-press="copy" data-of="${media}" ${label('Copy link')}>Copy link</button></span>`;
    }
    const text = media === '' ? 'Making it…' : 'Make the clip';
    return html`<span class="clip"><button type="button" data-press="clip" data-of="${bib}" ${label(text)} ${media === '' && 'disabled'}>${text}</button></span>`;
  }

  async function make(bib: number) {
    clips.set(bib, '');
    show();
    try {
      clips.set(bib, await makeClip(`${registrations()}/${bib}/clips`, {}));
      show();
      const link = document.getElementById(`runner-${bib}`)?.querySelector<HTMLElement>('.clip a');
      if (document.activeElement === document.body) link?.focus(); // the button was disabled, and lost it
      say(`The clip of ${asked.get(bib)?.name} is there.`);
    } catch (err) {
      say(message(err));
      clips.delete(bib);
      show();
    }
  }

  onPress({
    clip: (bib) => make(Number(bib)),
    copy: (media) => copy(new URL(media, location.href).href, say, 'The link is copied.'),
  });
  return { offer, clear: () => clips.clear() };
}
