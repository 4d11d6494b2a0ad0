// HTML from data. A page writes what it knows as markup, and a library changes what is
// shown until it is that: what did not change stays, with its focus and its pictures.
import { Idiomorph } from '../static/vendor/idiomorph.js';

// Html is markup. html makes it, and nothing else does.
export class Html {
  constructor(readonly text: string) {}
}

export type Part = Html | string | number | false | undefined | Part[];

const marks: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function markup(part: Part): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Html) return part.text;
  if (Array.isArray(part)) return part.map(markup).join('');
  return String(part).replace(/[&<>"']/g, (mark) => marks[mark] ?? '');
}

// html is a template: what is put into it is text, unless html made it. Values of
// attributes are in quotes.
export const html = (text: readonly string[], ...parts: Part[]) => new Html(text.map((piece, i) => piece + markup(parts[i])).join(''));

// row is one of a table, whose first cell names it.
export const row = (first: Part, cells: Part[], attributes: Part = '') => html`<tr ${attributes}><th scope="row">${first}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`;

// draw makes an element hold what a template says.
export const draw = (place: Element, content: Html) => drawAll([[place, content]]);

// drawAll draws several elements; the focus may go from one to another. If what had it is
// gone, that has it which is in its place, or the heading.
export function drawAll(parts: [Element, Html][]) {
  const focused = document.activeElement;
  const place = parts.find(([element]) => element.contains(focused))?.[0];
  const stops = () => [...place?.querySelectorAll<HTMLElement>('button:enabled:not([data-own] *), a') ?? []];
  const at = stops().findIndex((stop) => stop === focused);
  for (const [element, { text }] of parts) {
    Idiomorph.morph(element, text, { morphStyle: 'innerHTML', callbacks: { beforeNodeMorphed, beforeAttributeUpdated } });
    style(element);
  }
  if (!place || document.activeElement === focused) return;
  const same = focused?.id ? document.getElementById(focused.id) : null;
  const next = at < 0 ? null : stops()[at] ?? stops().at(-1) ?? place.closest('section, details')?.querySelector<HTMLElement>('h2, summary');
  (same ?? next)?.focus({ preventScroll: true });
}

// What another script draws, in an element with data-own, is left to it, and so is what
// scripts set: styles, and which of many elements the tab key reaches.
const beforeNodeMorphed = (node: Node) => !(node instanceof Element && node.hasAttribute('data-own'));
const beforeAttributeUpdated = (name: string) => name !== 'style' && name !== 'tabindex';

// style sets the styles that markup names in data-style: the policy of the pages forbids
// those that are in markup itself.
function style(place: Element) {
  for (const styled of place.querySelectorAll<HTMLElement>('[data-style]')) {
    for (const rule of styled.dataset.style?.split(';') ?? []) styled.style.setProperty(...rule.split(':') as [string, string]);
  }
}

// add puts markup at the end of an element or at another place of it.
export const add = (place: Element, content: Html, where: InsertPosition = 'beforeend') => place.insertAdjacentHTML(where, content.text);

// onPress does what a button names in data-press, with what it has in data-of.
export function onPress(acts: Record<string, (of: string, button: HTMLButtonElement) => void>) {
  document.addEventListener('click', ({ target }) => {
    const button = (target as Element).closest<HTMLButtonElement>('[data-press]');
    acts[button?.dataset.press ?? '']?.(button?.dataset.of ?? '', button!);
  });
}

// rove makes one stop of the tab key of many elements: the arrow keys lead from one to the
// next, and from row to row. What it returns is to be called when they were drawn.
export function rove(place: Element, each: string, row: string) {
  const all = () => [...place.querySelectorAll<HTMLElement>(each)];
  const settle = (stop?: HTMLElement) => {
    const items = all();
    stop ??= items.find((item) => item.tabIndex === 0) ?? items[0];
    for (const item of items) if (item.tabIndex !== (item === stop ? 0 : -1)) item.tabIndex = item === stop ? 0 : -1;
  };
  place.addEventListener('focusin', ({ target }) => { if ((target as Element).matches(each)) settle(target as HTMLElement); });
  place.addEventListener('keydown', (event) => {
    const { key, target } = event as KeyboardEvent;
    const to = neighbour(all(), target as HTMLElement, key, (item) => item.closest(row));
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
  return () => settle();
}

function neighbour(all: HTMLElement[], at: HTMLElement, key: string, rowOf: (item: HTMLElement) => unknown) {
  const i = all.indexOf(at);
  if (i < 0) return undefined;
  const others = (item: HTMLElement) => rowOf(item) !== rowOf(at);
  const inRow = (of: HTMLElement | undefined) => all.filter((item) => of && rowOf(item) === rowOf(of));
  const beside = (of: HTMLElement | undefined) => inRow(of)[inRow(at).indexOf(at)] ?? inRow(of).at(-1);
  switch (key) {
    case 'ArrowRight': return all[i + 1];
    case 'ArrowLeft': return all[i - 1];
    case 'ArrowDown': return beside(all.slice(i).find(others));
    case 'ArrowUp': return beside(all.slice(0, i).findLast(others));
    case 'Home': return all[0];
    case 'End': return all.at(-1);
    default: return undefined;
  }
}
