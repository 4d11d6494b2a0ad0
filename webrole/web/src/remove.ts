// Deletes a video after a while in which one can think again. Nothing is asked before:
// a question that one always answers with yes protects against nothing.
import { $, call, message, say } from './api';

const seconds = 10;

// setUp makes the button delete the video of this page.
export function setUp(id: string, button: HTMLButtonElement) {
  let timer = 0; // runs while one can think again
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    $('undo').hidden = true;
  };

  button.addEventListener('click', () => {
    if (timer) return;
    const due = Date.now() + seconds * 1000;
    const tick = () => {
      const left = Math.ceil((due - Date.now()) / 1000);
      $('undo-left').textContent = `In ${left} s.`;
      if (left > 0) return;
      stop();
      call('DELETE', `/videos/${id}`).then(() => location.assign('/')).catch((err) => say(message(err)));
    };
    timer = window.setInterval(tick, 500);
    $('undo').hidden = false;
    tick();
    $('undo-button').focus();
  });
  $('undo-button').addEventListener('click', () => {
    stop();
    say('The video stays.');
    button.focus();
  });
  // Who leaves the page has not changed their mind.
  addEventListener('pagehide', () => {
    if (timer) void fetch(`/api/v1/videos/${id}`, { method: 'DELETE', keepalive: true });
  });
}
