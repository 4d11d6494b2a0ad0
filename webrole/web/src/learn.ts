// The list of scenes: those that were played here to their end are marked.
import { element } from './api';
import { played } from './played';

for (const item of document.querySelectorAll<HTMLElement>('[data-scene]')) {
  if (played().includes(item.dataset.scene ?? '')) item.querySelector('h3')?.append(element('span', { class: 'soft' }, ' ✓ played'));
}
