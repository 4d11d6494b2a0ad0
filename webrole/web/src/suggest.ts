// Suggests people, tags and channels that videos have already, while the user types: what
// the search finds for the last word of a list and what it has in common.
import { call, message, plural, type Facets } from './api';
import { add, draw, html } from './html';

const pause = 200; // ms without a key before the server is asked
const atMost = 8;

// suggest adds a list of suggestions to a field, whose value is a comma-separated list
// or, with one, a single name.
export function suggest(field: HTMLInputElement, kind: 'actors' | 'tags' | 'channels', one = false) {
  add(field, html`<datalist id="${field.id}-suggestions"></datalist>`, 'afterend');
  const options = field.nextElementSibling!;
  field.setAttribute('list', options.id);
  field.autocomplete = 'off';
  let timer = 0;
  let asked = '';

  async function ask() {
    const cut = one ? 0 : field.value.lastIndexOf(',') + 1;
    const typed = field.value.slice(cut).trim();
    if (typed === asked) return;
    asked = typed;
    if (typed.length < 2) return options.replaceChildren();
    const { facets } = await call<{ facets: Facets }>('GET', `/search?${new URLSearchParams({ q: typed, facets: 'true', limit: '1' })}`);
    if (typed !== asked) return; // the user types on
    const before = field.value.slice(0, cut) + (cut ? ' ' : '');
    const has = field.value.toLowerCase().split(',').map((name) => name.trim());
    draw(options, html`${facets[kind]
      .filter(({ value }) => value.toLowerCase().split(/\s+/).some((word) => word.startsWith(typed.toLowerCase())) || value.toLowerCase().startsWith(typed.toLowerCase()))
      .filter(({ value }) => !has.includes(value.toLowerCase()))
      // A list offers what begins with all that was typed.
      .slice(0, atMost).map(({ value, count }) => html`<option value="${before + value}">${value}, ${plural(count, 'video')}</option>`)}`);
  }

  field.addEventListener('input', () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => { ask().catch((err) => console.info('suggestions', message(err))); }, pause);
  });
}

// suggestAll adds suggestions to the fields of a form that says what a video is about.
export function suggestAll(field: (id: string) => HTMLInputElement) {
  suggest(field('actors'), 'actors');
  suggest(field('directors'), 'actors');
  suggest(field('tags'), 'tags');
  suggest(field('channel'), 'channels', true);
}
