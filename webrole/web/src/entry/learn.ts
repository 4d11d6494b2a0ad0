// The list of scenes: those that were played here to their end are marked.
import { add, html } from '../html';
import { played } from '../played';

for (const item of document.querySelectorAll<HTMLElement>('[data-scene]')) {
  const heading = item.querySelector('h3');
  if (heading && played(item.dataset.scene ?? '')) add(heading, html`<span class="soft"> ✓ played</span>`);
}
