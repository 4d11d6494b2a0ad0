// A small plot of one number over the last minutes: a line, the newest value in words.
import { element, svg } from '../api';

const width = 96, height = 22, points = 60;

export interface Plot { node: HTMLElement; show(values: number[], text: string, words: string): void }

const names = { done: 'done', age: 'oldest' };

export function plot(kind: keyof typeof names): Plot {
  const area = svg('path', { class: 'plot-area' });
  const line = svg('path', { class: 'plot-line' });
  const box = svg('svg', { viewBox: `0 0 ${width} ${height}`, class: `plot plot-${kind}`, 'aria-hidden': 'true' }, area, line);
  const value = element('span', { class: 'plot-value', 'aria-hidden': 'true' });
  const words = element('span', { class: 'unseen' });
  const node = element('div', { class: 'plot-box' }, element('span', { class: 'plot-name', 'aria-hidden': true }, names[kind]), box, value, words);
  return {
    node,
    show(values, text, said) {
      const top = Math.max(1, ...values);
      const first = points - values.length;
      const at = values.map((v, i) => `${(((first + i) / (points - 1)) * width).toFixed(1)} ${(height - 1 - (v / top) * (height - 3)).toFixed(1)}`);
      const path = at.length > 1 ? `M${at.join('L')}` : '';
      line.setAttribute('d', path);
      area.setAttribute('d', path && `${path}L${width} ${height}L${((first / (points - 1)) * width).toFixed(1)} ${height}Z`);
      value.textContent = text;
      words.textContent = said;
      node.toggleAttribute('data-flat', values.every((v) => v === 0));
    },
  };
}
