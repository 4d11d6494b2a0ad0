// The parts of one file on their way to storage. The server says which it holds, which
// to send next, and which are waited for; each is put with a key that creates its blob,
// once. So the first to come with a part has sent it, and no later one replaces it.
import { type Upload, call, hopeless, insist, rest, sleep } from './api';
import { sum } from './md5';

const atOnce = 4; // parts in flight
const renewBefore = 60_000; // ms before a key ends
const askOften = 1000; // ms, until the beginning can be watched
const askEvery = 2000; // ms, while there is news
const askSeldom = 10_000; // ms, after a minute in which nothing could be watched

// patience is how many ms a part may take: at 32 KB/s, or less after each try in vain.
const patience = (bytes: number, tries: number) => (30_000 + bytes / 32) * (tries + 1);

// OtherFile says that another file was sent for this video.
export class OtherFile extends Error {}

export class Parts {
  found = 0; // of these, the bytes that it held before
  retrying = false; // the connection broke; it is tried again
  playable = false; // the beginning can be watched already
  private upload: Upload | null = null;
  private readonly held = new Map<number, string>(); // checksums of parts as storage has them
  private readonly sums = new Map<number, string>(); // of parts of our file
  private readonly urls = new Map<number, string>();
  private readonly busy = new Set<number>();
  private queue: number[] = [];
  private first = new Set<number>(); // parts that are waited for
  private asking: Promise<void> | null = null;
  private askedAt = 0;
  private readonly began = performance.now();
  private news = 0; // parts that were sent since the server was asked
  private failure: unknown = null;

  constructor(private readonly id: string, private readonly file: File, private readonly signal: AbortSignal,
    private readonly paused: () => boolean, private readonly changed: () => void) {}

  // sent is how many bytes storage holds.
  get sent() { return [...this.held.keys()].reduce((sum, n) => sum + this.length(n), 0); }

  // send sends what is missing and returns the checksums of all parts. OtherFile.
  async send(): Promise<string[]> {
    await this.ask();
    const upload = this.upload;
    if (!upload) throw new Error('The server did not say what it holds.');
    this.found = this.sent;
    const clock = setInterval(() => this.tick(), 500);
    try {
      await Promise.all([...Array.from({ length: atOnce }, () => this.lane()), this.compare()].map((work) => this.beside(work)));
      if (this.failure === null) await this.beside(this.compare()); // what others sent meanwhile
    } finally {
      clearInterval(clock);
    }
    if (this.failure !== null) throw this.failure;
    return Array.from({ length: upload.parts }, (_, n) => this.sums.get(n) ?? '');
  }

  // tick asks the server when it may have something new: it begins work on what has
  // arrived only when it is asked.
  private tick() {
    const since = performance.now() - this.askedAt;
    const impatient = !this.playable && (performance.now() - this.began < 60_000 || since > askSeldom);
    if (since < (impatient ? askOften : askEvery) || this.paused() || this.signal.aborted || !(this.news || impatient)) return;
    void this.beside(this.ask());
  }

  // beside lets work go on beside other. If it fails, all of it ends.
  private beside(work: Promise<void>) {
    return work.catch((err: unknown) => { this.failure ??= err; });
  }

  private ask(): Promise<void> {
    this.asking ??= this.askNow().finally(() => { this.asking = null; });
    return this.asking;
  }

  private async askNow() {
    this.learn(await insist(() => {
      this.askedAt = performance.now();
      this.news = 0;
      return call<Upload>('POST', `/videos/${this.id}/upload`, { body: { sizeBytes: this.file.size }, signal: this.signal });
    }, this.signal, () => this.broke()));
  }

  private learn(upload: Upload) {
    this.upload = upload;
    this.playable = upload.playable;
    this.retrying = false;
    for (const part of upload.held) this.arrived(part.number, part.md5);
    for (const part of upload.send) this.urls.set(part.number, part.url);
    const missing = upload.send.map((part) => part.number);
    this.queue = missing.filter((n) => !this.held.has(n) && !this.busy.has(n));
    this.first = new Set(missing.slice(0, upload.first).filter((n) => !this.held.has(n)));
    this.changed();
  }

  private arrived(n: number, md5: string) {
    this.held.set(n, md5);
    this.first.delete(n);
    this.busy.delete(n);
    this.urls.delete(n);
    this.check(n);
  }

  private check(n: number) {
    const [here, there] = [this.sums.get(n), this.held.get(n)];
    if (here && there && here !== there) throw new OtherFile('Another file was sent for this video. Try again to send this one as a new video.');
  }

  private length(n: number) {
    const size = this.upload?.partSizeBytes ?? 0;
    return Math.min(size, this.file.size - n * size);
  }

  private async read(n: number) {
    const at = n * (this.upload?.partSizeBytes ?? 0);
    const part = await sum(await this.file.slice(at, at + this.length(n)).arrayBuffer());
    this.sums.set(n, part.sum);
    this.check(n);
    return part;
  }

  // compare looks whether what storage holds already is of our file.
  private async compare() {
    for (const n of [...this.held.keys()]) {
      while (this.failure === null && this.first.size > 0) await sleep(50);
      if (this.failure !== null) return;
      if (!this.sums.has(n)) await this.read(n);
    }
  }

  private async lane() {
    for (let n = await this.next(); n !== null; n = await this.next()) await this.put(n);
  }

  // next is the part to send, or null when there are no more. While parts are waited for
  // the others do not take the line from them.
  private async next(): Promise<number | null> {
    while (this.failure === null && this.held.size + this.busy.size < (this.upload?.parts ?? 0)) {
      const n = this.queue[0];
      if (this.paused()) await this.pause();
      else if (n === undefined) {
        await this.ask();
        if (this.queue.length === 0) await sleep(200);
      } else if (this.first.size > 0 && !this.first.has(n)) await sleep(50);
      else {
        this.queue.shift();
        this.busy.add(n);
        return n;
      }
    }
    return null;
  }

  private async put(n: number) {
    const { data, sum: md5 } = await this.read(n);
    for (let tries = 0; this.failure === null; tries++) {
      await this.pause();
      if (Date.parse(this.upload?.expiresAt ?? '') - Date.now() < renewBefore) await this.ask();
      if (this.held.has(n)) return;
      const status = await this.putOnce(this.urls.get(n) ?? '', data, md5, patience(data.byteLength, tries));
      const there = status === 403 || status === 409;
      this.retrying = status !== 201 && !there;
      if (status === 201) {
        this.news++;
        const waited = this.first.has(n);
        this.arrived(n, md5);
        this.changed();
        if (waited && this.first.size === 0) void this.beside(this.ask());
        return;
      }
      // The part is there, by another tab or by a try of ours whose answer was lost; or the key is too old.
      if (there) await this.ask();
      // 400: it did not arrive as it was sent. 0: there was no answer.
      else if (status !== 0 && status < 500 && ![400, 408, 429].includes(status)) throw new Error(`Storage refused a part (${status}).`);
      if (this.held.has(n)) return;
      if (hopeless(tries)) throw new Error('Storage cannot be reached. What arrived is kept.');
      this.broke();
      await rest(tries);
    }
  }

  // putOnce returns the status of storage's answer, or 0 when there was none in time. Storage
  // compares the sum, and refuses what was changed on the way (paper row Q12). A part is
  // created once: of two that come at the same time, storage refuses the second.
  private async putOnce(url: string, body: ArrayBuffer, md5: string, ms: number): Promise<number> {
    try {
      const headers = { 'x-ms-version': '2021-12-02', 'x-ms-blob-type': 'BlockBlob', 'Content-MD5': md5, 'If-None-Match': '*' };
      return (await fetch(url, { method: 'PUT', body, headers, signal: AbortSignal.any([this.signal, AbortSignal.timeout(ms)]) })).status;
    } catch (err) {
      if (this.signal.aborted) throw err;
      return 0;
    }
  }

  private async pause() {
    while (this.paused() && !this.signal.aborted && this.failure === null) await sleep(200);
    this.signal.throwIfAborted();
  }

  private broke() {
    this.retrying = true;
    this.changed();
  }
}
