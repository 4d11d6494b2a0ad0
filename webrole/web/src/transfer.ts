// One file on its way to storage, from its announcement to the request that says it is
// there. The server says which parts it holds, so a broken transfer goes on where it
// stopped: this browser remembers which video a file (name, size, time) belongs to.
import { Problem, type Schemas, type Video, call, insist } from './api';
import { remember, remembered } from './memory';
import { OtherFile, Parts } from './parts';

export type Metadata = Schemas['NewVideo'];

// Cancelled is thrown by Transfer.run when cancel was called.
export class Cancelled extends Error {}

export class Transfer {
  video: Video | null = null;
  paused = false;
  private parts: Parts | null = null;
  private broken = false; // what comes before and after the parts is tried again
  private readonly ending = new AbortController();
  private readonly speeds: { at: number; sent: number }[] = [];

  // changed is called whenever there is something new to show. id is that of a video
  // which waits for this file, when another browser announced it.
  constructor(readonly file: File, private readonly changed: () => void, private id = '') {}

  get sent() { return this.parts?.sent ?? 0; } // bytes that storage holds
  get found() { return this.parts?.found ?? 0; } // of these, the bytes that it held before
  get retrying() { return this.broken || (this.parts?.retrying ?? false); } // the connection broke; it is tried again
  get playable() { return this.parts?.playable ?? false; } // the beginning can be watched already

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
      this.video = await alone(fingerprint(this.file), this.ending.signal, () => this.announce(metadata));
      if (this.video.state !== 'awaiting_upload') return await this.done(this.video);
      this.speeds.length = 0;
      this.parts = new Parts(this.video.id, this.file, this.ending.signal, () => this.paused, () => this.progress());
      const md5 = await this.parts.send();
      const video = await this.ask('POST', `/videos/${this.video.id}/upload/complete`, { md5 });
      return await this.done(video);
    } catch (err) {
      const ended = err instanceof Problem && err.code === 'state_conflict' && this.video ? await this.ended(this.video.id) : null;
      if (ended) return await this.done(ended);
      if (err instanceof OtherFile || (err instanceof Problem && err.code === 'upload_conflict')) {
        this.id = ''; // the next try makes a video of its own
        await remember(fingerprint(this.file), null);
      }
      throw this.ending.signal.aborted ? new Cancelled() : err;
    }
  }

  private async done(video: Video): Promise<Video> {
    await remember(fingerprint(this.file), null);
    return video;
  }

  // ended is the video of this file if all of it has arrived: another tab sent the rest, or
  // the answer that said so was lost.
  private async ended(id: string): Promise<Video | null> {
    const video = await this.ask('GET', `/videos/${id}`).catch(() => null);
    return video && !['awaiting_upload', 'failed', 'cancelled', 'deleting'].includes(video.state) ? video : null;
  }

  private async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Video> {
    const { signal } = this.ending;
    const video = await insist(() => call<Video>(method, path, { body, headers, signal }), signal, () => { this.broken = true; this.changed(); });
    this.broken = false;
    return video;
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
      const video = await this.ask('GET', `/videos/${waiting}`).catch((err) => {
        if (!(err instanceof Problem) || err.status !== 404) throw err;
        return null;
      });
      if (video?.state === 'awaiting_upload') {
        if (this.id) return video; // it was described where it was announced
        return await this.describe(video, metadata);
      }
      const ended = video && await this.ended(video.id);
      if (ended) return this.id ? ended : await this.describe(ended, metadata);
    }
    const body = { ...metadata, sizeBytes: file.size, fingerprint: fingerprint(file) };
    const create = async (key: string) => {
      await remember(fingerprint(file), { key }); // first: the answer may be lost
      const video = await this.ask('POST', '/videos', body, { 'Idempotency-Key': key });
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

  // describe says it again when the video changed meanwhile: work on it may have begun.
  private async describe(video: Video, metadata: Metadata): Promise<Video> {
    try {
      return await this.ask('PATCH', `/videos/${video.id}`, metadata, { 'If-Match': video.etag });
    } catch (err) {
      if (!(err instanceof Problem) || err.status !== 412) throw err;
      return this.describe(await this.ask('GET', `/videos/${video.id}`), metadata);
    }
  }

  private progress() {
    const now = performance.now();
    this.speeds.push({ at: now, sent: this.sent });
    while (this.speeds.length > 2 && now - (this.speeds[0]?.at ?? now) > 10_000) this.speeds.shift();
    this.changed();
  }
}

// fingerprint tells files apart, so that an upload can go on elsewhere.
export const fingerprint = (file: File) => `${file.name.slice(0, 200)}|${file.size}|${file.lastModified}`;

// alone lets one tab at a time do it, where the browser has locks: two that announce a file
// at the same moment would make two videos.
const alone = <T>(what: string, signal: AbortSignal, task: () => Promise<T>): Promise<T> =>
  ('locks' in navigator ? navigator.locks.request(what, { signal }, task) as Promise<T> : task());

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
