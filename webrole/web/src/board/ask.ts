// A question before something that cannot be taken back.
import { $ } from '../api';

export function ask(question: string, yes: string): Promise<boolean> {
  const dialog = $<HTMLDialogElement>('ask');
  $('ask-text').textContent = question;
  $('ask-yes').textContent = yes;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener('close', () => answer(dialog.returnValue === 'yes'), { once: true });
  });
}
