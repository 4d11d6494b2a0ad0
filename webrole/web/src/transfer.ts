// One file on its way to storage, block by block with a valet key. The server says
// which blocks it holds, so a broken transfer goes on where it stopped: this browser
// remembers which video a file (name, size, time) belongs to.
import { Problem, type Upload, type Video, call, sleep } from './api';
import { sum } from './md5';
import { remember, remembered } from './memory';

const atOnce = 4; // blocks in flight
const mostTries = 8;
const longestPause = 30_000; // ms
const renewBefore = 60_000; // ms before a key ends

export interface Metadata {
  title: string;
  description: string;
  channel: string;
  actors: string[];
  directors: string[];
  tags: string[];
  visibility: string;
  priority: string;
}

// Cancelled is thrown by Transfer.run when cancel was called.
export class Cancelled extends Error {}

export class Transfer {
  video: Video | null = null;
  sent = 0; // bytes that storage holds
  found = 0; // of these, the bytes that it held before
  paused = false;
  retrying = false; // the connection broke; it is tried again
  private readonly ending = new AbortController();
  private readonly speeds: { at: number; sent: number }[] = [];

  // changed is called whenever there is something new to show. id is that of a video
  // which waits for this file, when another browser announced it.
  constructor(readonly file: File, private readonly changed: () => void, private readonly id = '') {}

  pause(paused: boolean) {
    this.paused = paused;
    this.speeds.length = 0;
    this.changed();
  }

  // cancel ends the transfer and removes the video that waited for it.
  async cancel() {
    this.ending.abort();
    await remember(fingerprint(this.file), null);
    if (this.video) await call('DELETE', `/videos/${this.video.id}`);
  }

  // run sends what is missing and returns the video that the server took. After an
  // error it may be called again.
  async run(metadata: Metadata): Promise<Video> {
    try {
      this.video = await this.announce(metadata);
      await this.sendBlocks(this.video);
      const video = await call<Video>('POST', `/videos/${this.video.id}/upload/complete`, { signal: this.ending.signal });
      await remember(fingerprint(this.file), null);
      return video;
    } catch (err) {
      throw this.ending.signal.aborted ? new Cancelled() : err;
    }
  }

  // bytes per second over the last seconds; 0 when that is not known.
  speed(): number {
    const [first, last] = [this.speeds[0], this.speeds.at(-1)];
    return first && last && last.at > first.at ? (last.sent - first.sent) / (last.at - first.at) * 1000 : 0;
  }

  // The video that this file belongs to: the one that waits for it, with the words
  // that the form has now, or a new one.
  private async announce(metadata: Metadata): Promise<Video> {
    const { file } = this;
    const known = await remembered(fingerprint(file));
    const waiting = this.id || known?.id;
    if (waiting) {
      const video = await call<Video>('GET', `/videos/${waiting}`).catch((err) => {
        if (!(err instanceof Problem) || err.status !== 404) throw err;
        return null;
      });
      if (video?.state === 'awaiting_upload') {
        if (this.id) return video; // it was described where it was announced
        return call<Video>('PATCH', `/videos/${video.id}`, { body: metadata, headers: { 'If-Match': video.etag } });
      }
    }
    const body = { ...metadata, sizeBytes: file.size, fingerprint: fingerprint(file) };
    const create = async (key: string) => {
      await remember(fingerprint(file), { key }); // first: the answer may be lost
      const video = await call<Video>('POST', '/videos', { body, headers: { 'Idempotency-Key': key } });
      await remember(fingerprint(file), { key, id: video.id });
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

  private async sendBlocks(video: Video) {
    const getKey = () => call<Upload>('GET', `/videos/${video.id}/upload`, { signal: this.ending.signal });
    let key = await getKey();
    const size = key.blockSizeBytes ?? 0;
    const length = (n: number) => Math.min(size, this.file.size - n * size);
    const held = new Set(key.blocksHeld ?? []);
    const todo: number[] = [];
    for (let n = 0; n * size < this.file.size; n++) if (!held.has(n)) todo.push(n);
    this.sent = this.found = [...held].reduce((bytes, n) => bytes + length(n), 0);
    this.speeds.length = 0;
    this.progress();

    const put = async (n: number) => {
      let { data, sum: md5 } = await sum(await this.file.slice(n * size, n * size + length(n)).arrayBuffer());
      for (let tries = 0; ; tries++) {
        while (this.paused && !this.ending.signal.aborted) await sleep(200);
        if (Date.parse(key.expiresAt) - Date.now() < renewBefore) key = await getKey();
        const status = await this.putOnce(key, n, data, md5);
        this.retrying = status !== 201;
        if (status === 201) break;
        if (status === 403) key = await getKey();
        // 400: the block did not arrive as it was sent. 0: there was no answer.
        else if (status !== 0 && status < 500 && ![400, 408, 429].includes(status)) throw new Error(`Storage refused a block (${status}).`);
        if (tries >= mostTries) throw new Error('Storage cannot be reached. What arrived is kept.');
        this.changed();
        await sleep(Math.min(longestPause, 500 * 2 ** tries) * (0.8 + 0.4 * Math.random()));
      }
      this.sent += length(n);
      this.progress();
    };
    let failure: unknown = null;
    await Promise.all(Array.from({ length: atOnce }, async () => {
      for (let n = todo.shift(); n !== undefined && failure === null; n = todo.shift()) {
        await put(n).catch((err: unknown) => { failure ??= err; });
      }
    }));
    if (failure !== null) throw failure;
  }

  // putOnce returns the status of storage's answer, or 0 when there was none. Storage
  // compares the sum, and refuses what was changed on the way (paper row Q12).
  private async putOnce(key: Upload, n: number, body: ArrayBuffer, md5: string): Promise<number> {
    const url = `${key.url}&comp=block&blockid=${encodeURIComponent(btoa(String(n).padStart(key.blockIdDigits ?? 0, '0')))}`;
    try {
      const answer = await fetch(url, { method: 'PUT', body, headers: { 'x-ms-version': '2021-12-02', 'Content-MD5': md5 }, signal: this.ending.signal });
      return answer.status;
    } catch (err) {
      if (this.ending.signal.aborted) throw err;
      return 0;
    }
  }

  private progress() {
    const now = performance.now();
    this.speeds.push({ at: now, sent: this.sent });
    while (this.speeds.length > 2 && now - (this.speeds[0]?.at ?? now) > 10_000) this.speeds.shift();
    this.changed();
  }
}

// fingerprint tells files apart, for whoever goes on with an upload elsewhere.
export const fingerprint = (file: File) => `${file.name.slice(0, 200)}|${file.size}|${file.lastModified}`;

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
