// A small plot of one number over the last minutes: a line, the newest value in words.
import { html } from '../html';

const width = 96, height = 22, points = 60;

const names = { done: 'done', age: 'oldest' };

export function plot(kind: keyof typeof names, values: number[], text: string, words: string) {
  const top = Math.max(1, ...values);
  const first = points - values.length;
  const x = (i: number) => (((first + i) / (points - 1)) * width).toFixed(1);
  const at = values.map((v, i) => `${x(i)} ${(height - 1 - (v / top) * (height - 3)).toFixed(1)}`);
  const path = at.length > 1 ? `M${at.join('L')}` : '';
  return html`<div class="plot-box" ${values.every((v) => v === 0) && 'data-flat'}>
    <span class="plot-name" aria-hidden="true">${names[kind]}</span>
    <svg viewBox="0 0 ${width} ${height}" class="plot plot-${kind}" aria-hidden="true">
      <path class="plot-area" d="${path && `${path}L${width} ${height}L${x(0)} ${height}Z`}"></path><path class="plot-line" d="${path}"></path></svg>
    <span class="plot-value" aria-hidden="true">${text}</span><span class="unseen">${words}</span></div>`;
}
