// The API as the pages use it: JSON or a file in, JSON out, problems as exceptions.

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.code = body.code || '';
    this.status = status;
  }
}

export async function call(method, path, { body, headers = {}, signal } = {}) {
  const init = { method, headers: { ...headers }, signal };
  if (body instanceof Blob) {
    init.headers['Content-Type'] = body.type;
    init.body = body;
  } else if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(`/api/v1${path}`, init);
  const text = await answer.text();
  let json = {};
  try {
    if (text) json = JSON.parse(text);
  } catch {
    // An answer of something between us and the server: its status says enough.
  }
  if (!answer.ok) throw new Problem(json, answer.status);
  return json;
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Polls while the page is visible, until task returns true.
export async function poll(ms, task) {
  for (;;) {
    if (!document.hidden) {
      try {
        if (await task()) return;
      } catch (err) {
        say(err.message);
      }
    }
    await sleep(ms);
  }
}

export const $ = (id) => document.getElementById(id);

// Announces a text to everybody, screen readers included; the same text once.
export function say(text) {
  const status = $('status');
  if (status.textContent !== text) status.textContent = text;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children);
  return made;
}

const stateTexts = {
  awaiting_upload: 'Waiting for the upload',
  uploaded: 'Waiting for a worker',
  processing: 'Processing',
  ready: 'Ready',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

// Lists know the progress only coarsely: exact is for the video itself.
export function stateText(video, exact = false) {
  let text = stateTexts[video.state] || video.state;
  if (exact && video.state === 'processing') text += ` ${video.progress.percent} %`;
  if (video.playable && video.state === 'processing') text += ', can be watched already';
  if (video.error) text += `: ${video.error.detail}`;
  return text;
}

export const settled = (video) => ['ready', 'failed', 'cancelled'].includes(video.state);

export function duration(seconds) {
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  const rest = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return s >= 3600 ? `${Math.floor(s / 3600)}:${rest}` : rest.replace(/^0/, '');
}
