// Uploads straight to storage with a valet key. The server says which blocks it
// holds, so a broken upload goes on where it stopped, even in another browser:
// the same file (name, size, time) leads to the same video.
import { $, Problem, call, say, sleep } from './api.js';

const atOnce = 3; // blocks in flight
let running = false;
let paused = false;

$('file').addEventListener('change', () => {
  const file = $('file').files[0];
  if (file && !$('title').value) $('title').value = file.name.replace(/\.[^.]+$/, '').slice(0, 200);
});

const names = (id) => $(id).value.split(',').map((s) => s.trim()).filter(Boolean);

function metadata() {
  return {
    title: $('title').value.trim(), description: $('description').value, channel: $('channel').value.trim(),
    actors: names('actors'), directors: names('directors'), tags: names('tags'),
    visibility: $('visibility').value, priority: $('priority').value,
  };
}

// The video that this file belongs to: a new one, or the one that waits for it.
async function announce(file) {
  const fingerprint = `${file.name.slice(0, 200)}|${file.size}|${file.lastModified}`;
  const key = `file-${file.size}-${file.lastModified}-${encodeURIComponent(file.name).slice(0, 180)}`;
  const body = { ...metadata(), sizeBytes: file.size, fingerprint };
  const create = (suffix) => call('POST', '/videos', { body, headers: { 'Idempotency-Key': key + suffix } });
  try {
    const video = await create('');
    if (video.state === 'awaiting_upload') return video;
  } catch (err) {
    if (!(err instanceof Problem) || err.status !== 409) throw err;
    if (err.code === 'idempotency_mismatch') {
      // The same file with other words: go on, and let the new words win.
      const video = await call('GET', `/videos/${err.videoId}`).catch(() => null);
      if (video?.state === 'awaiting_upload') {
        return call('PATCH', `/videos/${video.id}`, { body: metadata(), headers: { 'If-Match': video.etag } });
      }
    }
  }
  // It was uploaded before, on purpose or not: this is another one.
  return create(`-${Date.now()}`);
}

const blockId = (n, digits) => btoa(String(n).padStart(digits, '0'));

async function send(file, video) {
  let key = await call('GET', `/videos/${video.id}/upload`);
  const total = Math.ceil(file.size / key.blockSizeBytes);
  const held = new Set(key.blocksHeld);
  const resumed = held.size;
  const todo = [];
  for (let n = 0; n < total; n++) if (!held.has(n)) todo.push(n);
  const show = () => {
    $('bar').value = total ? held.size / total : 1;
    say(`${resumed ? 'Going on: ' : ''}${held.size} of ${total} blocks are there`);
  };
  show();

  async function put(n) {
    const from = n * key.blockSizeBytes;
    const block = file.slice(from, Math.min(file.size, from + key.blockSizeBytes));
    for (let attempt = 0; ; attempt++) {
      while (paused) await sleep(200);
      if (Date.parse(key.expiresAt) - Date.now() < 60_000) key = await call('GET', `/videos/${video.id}/upload`);
      try {
        const answer = await fetch(`${key.url}&comp=block&blockid=${encodeURIComponent(blockId(n, key.blockIdDigits))}`, {
          method: 'PUT', body: block, headers: { 'x-ms-version': '2021-12-02' },
        });
        if (answer.ok) break;
        if (answer.status === 403) key = await call('GET', `/videos/${video.id}/upload`);
        else if (answer.status < 500 && answer.status !== 408 && answer.status !== 429) throw new Problem({ detail: `Storage refused a block (${answer.status}).` }, answer.status);
      } catch (err) {
        if (err instanceof Problem) throw err;
        say('The connection broke; trying again…');
      }
      if (attempt >= 8) throw new Error('Storage cannot be reached. Choose the file again later: what arrived is kept.');
      await sleep(Math.min(30_000, 500 * 2 ** attempt) * (0.8 + 0.4 * Math.random()));
    }
    held.add(n);
    show();
  }

  let failure = null;
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (todo.length && !failure) await put(todo.shift()).catch((err) => { failure ||= err; });
  }));
  if (failure) throw failure;
  return call('POST', `/videos/${video.id}/upload/complete`);
}

$('upload').addEventListener('submit', async (event) => {
  event.preventDefault();
  const file = $('file').files[0];
  if (!file || running) return;
  running = true;
  $('send').disabled = true;
  $('progress').hidden = false;
  try {
    const video = await announce(file);
    await send(file, video);
    running = false;
    location.assign(`/watch/${video.id}`);
  } catch (err) {
    say(err.message);
    $('progress').hidden = true;
  } finally {
    running = false;
    $('send').disabled = false;
  }
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').textContent = paused ? 'Go on' : 'Pause';
});
addEventListener('beforeunload', (event) => {
  if (running) event.preventDefault();
});
