// Uploads straight to storage with a valet key. The server says which blocks it
// holds, so a broken upload goes on where it stopped: this browser remembers which
// video a file (name, size, time) belongs to.
import { md5 } from '../static/vendor/md5.min.js';
import { $, Problem, type Upload, type Video, call, message, say, sleep } from './api';

const atOnce = 3; // blocks in flight
let running = false;
let paused = false;

const field = (id: string) => $<HTMLInputElement>(id);

field('file').addEventListener('change', () => {
  const file = field('file').files?.[0];
  if (file && !field('title').value) field('title').value = file.name.replace(/\.[^.]+$/, '').slice(0, 200);
});

const names = (id: string) => field(id).value.split(',').map((s) => s.trim()).filter(Boolean);

function metadata() {
  return {
    title: field('title').value.trim(), description: field('description').value, channel: field('channel').value.trim(),
    actors: names('actors'), directors: names('directors'), tags: names('tags'),
    visibility: field('visibility').value, priority: field('priority').value,
  };
}

// What this browser remembers of a file's upload: the key of the request that
// announced it, and the video once its id is known. The key is random, because
// whoever can guess it is answered with the video.
interface Memory { key?: string; id?: string }
const place = (file: File) => `upload ${file.name.slice(0, 200)}|${file.size}|${file.lastModified}`;

function remembered(file: File): Memory | null {
  try {
    return JSON.parse(localStorage.getItem(place(file)) ?? 'null');
  } catch {
    return null; // storage is off, or somebody wrote there
  }
}

function remember(file: File, what: Memory | null) {
  try {
    if (what) localStorage.setItem(place(file), JSON.stringify(what));
    else localStorage.removeItem(place(file));
  } catch {
    // Then a broken upload begins anew.
  }
}

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');

// The video that this file belongs to: the one that waits for it, with the words
// that the form has now, or a new one.
async function announce(file: File): Promise<Video> {
  const known = remembered(file);
  if (known?.id) {
    const video = await call<Video>('GET', `/videos/${known.id}`).catch((err) => {
      if (!(err instanceof Problem) || err.status !== 404) throw err;
      return null;
    });
    if (video?.state === 'awaiting_upload') {
      return call('PATCH', `/videos/${video.id}`, { body: metadata(), headers: { 'If-Match': video.etag } });
    }
  }
  const body = { ...metadata(), sizeBytes: file.size, fingerprint: `${file.name.slice(0, 200)}|${file.size}|${file.lastModified}` };
  const create = async (key: string) => {
    remember(file, { key }); // first: the answer may be lost
    const video = await call<Video>('POST', '/videos', { body, headers: { 'Idempotency-Key': key } });
    remember(file, { key, id: video.id });
    return video;
  };
  if (known?.key && !known.id) {
    try {
      const video = await create(known.key);
      if (video.state === 'awaiting_upload') return video;
    } catch (err) {
      if (!(err instanceof Problem) || err.code !== 'idempotency_mismatch') throw err; // else: asked with other words then
    }
  }
  return create(newKey());
}

const blockId = (n: number, digits: number) => btoa(String(n).padStart(digits, '0'));

async function send(file: File, video: Video) {
  let key = await call<Upload>('GET', `/videos/${video.id}/upload`);
  const total = Math.ceil(file.size / key.blockSizeBytes);
  const held = new Set(key.blocksHeld);
  const resumed = held.size;
  const todo: number[] = [];
  for (let n = 0; n < total; n++) if (!held.has(n)) todo.push(n);
  const show = () => {
    $<HTMLProgressElement>('bar').value = total ? held.size / total : 1;
    say(`${resumed ? 'Going on: ' : ''}${held.size} of ${total} blocks are there`);
  };
  show();

  async function put(n: number) {
    const from = n * key.blockSizeBytes;
    const block = await file.slice(from, Math.min(file.size, from + key.blockSizeBytes)).arrayBuffer();
    const sum = md5.base64(block); // storage refuses what was changed on the way
    for (let attempt = 0; ; attempt++) {
      while (paused) await sleep(200);
      if (Date.parse(key.expiresAt) - Date.now() < 60_000) key = await call<Upload>('GET', `/videos/${video.id}/upload`);
      try {
        const answer = await fetch(`${key.url}&comp=block&blockid=${encodeURIComponent(blockId(n, key.blockIdDigits))}`, {
          method: 'PUT', body: block, headers: { 'x-ms-version': '2021-12-02', 'Content-MD5': sum },
        });
        if (answer.ok) break;
        // 400: the block did not arrive as it was sent.
        if (answer.status === 403) key = await call<Upload>('GET', `/videos/${video.id}/upload`);
        else if (answer.status < 500 && ![400, 408, 429].includes(answer.status)) throw new Problem({ detail: `Storage refused a block (${answer.status}).` }, answer.status);
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

  let failure: unknown = null;
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let n = todo.shift(); n !== undefined && !failure; n = todo.shift()) await put(n).catch((err) => { failure ||= err; });
  }));
  if (failure) throw failure;
  return call('POST', `/videos/${video.id}/upload/complete`);
}

$('upload').addEventListener('submit', async (event) => {
  event.preventDefault();
  const file = field('file').files?.[0];
  if (!file || running) return;
  running = true;
  $<HTMLButtonElement>('send').disabled = true;
  $('progress').hidden = false;
  try {
    const video = await announce(file);
    await send(file, video);
    remember(file, null);
    running = false;
    location.assign(`/watch/${video.id}`);
  } catch (err) {
    say(message(err));
    $('progress').hidden = true;
  } finally {
    running = false;
    $<HTMLButtonElement>('send').disabled = false;
  }
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').textContent = paused ? 'Go on' : 'Pause';
});
addEventListener('beforeunload', (event) => {
  if (running) event.preventDefault();
});
