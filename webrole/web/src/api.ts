// The API as the pages use it: JSON or a file in, JSON out, problems as exceptions.
import type { components } from './api-types';

export type Schemas = components['schemas'];
export type Video = Schemas['Video'];
export type Step = Schemas['Step'];
export type Upload = Schemas['Upload'];
// What a search adds to a page of videos, of which the API knows only with that feature.
export type VideoPage = Schemas['VideoList'] & { didYouMean?: Record<string, string>; entitiesRead?: number; requests?: number };
export interface Facets { tags: Facet[]; channels: Facet[]; actors: Facet[]; hitsCounted: number; complete: boolean }
interface Facet { value: string; count: number }
export interface List<T> { items: T[]; nextPageToken?: string }

export class Problem extends Error {
  readonly code: string;

  constructor({ code = '', detail, title }: { code?: string; detail?: string; title?: string }, readonly status: number) {
    super(detail || title || `HTTP ${status}`);
    this.code = code;
  }
}

interface Request {
  body?: unknown; // a Blob is sent as it is, everything else as JSON
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

// What a page waits for an answer, in ms. A file takes longer.
const longestAnswer = 60_000;
const longestFile = 600_000;

export async function call<T = unknown>(method: string, path: string, { body, headers = {}, signal }: Request = {}): Promise<T> {
  const time = AbortSignal.timeout(body instanceof Blob ? longestFile : longestAnswer);
  const init: RequestInit = { method, headers, signal: signal ? AbortSignal.any([signal, time]) : time };
  if (body instanceof Blob) {
    init.headers = { ...headers, 'Content-Type': body.type };
    init.body = body;
  } else if (body !== undefined) {
    init.headers = { ...headers, 'Content-Type': 'application/json' };
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(`/api/v1${path}`, init).catch((err: unknown) => {
    if (signal?.aborted) throw err;
    throw new Error(time.aborted ? 'The server did not answer in time.' : 'The server cannot be reached. Is there a network?');
  });
  const text = await answer.text();
  let json: object = {};
  try {
    if (text) json = JSON.parse(text);
  } catch {
    // An answer of something between us and the server: its status says enough.
  }
  if (!answer.ok) throw new Problem(json, answer.status);
  return json as T;
}

export const sleep = (ms: number) => new Promise<void>((done) => { setTimeout(done, ms); });

const longestPause = 30_000; // ms
const mostTries = 8;

// rest waits before the next try, longer each time, or until the network is back.
export async function rest(tries: number) {
  const back = new Promise((done) => { addEventListener('online', done, { once: true }); });
  await Promise.race([back, sleep(Math.min(longestPause, 500 * 2 ** tries) * (0.8 + 0.4 * Math.random()))]);
}

// hopeless reports whether so many tries are enough. Without a network none is.
export const hopeless = (tries: number) => tries >= mostTries && navigator.onLine;

// insist repeats a request that is safe to repeat while it fails for a reason that passes.
// broken is called before each further try.
export async function insist<T>(request: () => Promise<T>, signal: AbortSignal, broken: () => void): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await request();
    } catch (err) {
      const final = err instanceof Problem && err.status < 500 && ![408, 429].includes(err.status);
      if (final || signal.aborted || hopeless(tries)) throw err;
    }
    broken();
    await rest(tries);
  }
}

export const message = (err: unknown) => (err instanceof Error ? err.message : String(err));

// Polls while the page is visible, until task returns true.
export async function poll(ms: number, task: () => Promise<boolean | void>) {
  for (;;) {
    if (!document.hidden) {
      try {
        if (await task()) return;
      } catch (err) {
        say(message(err));
      }
    }
    await sleep(ms);
  }
}

// $ finds an element that the page's template has. Where more than any element is
// needed the caller names the type that the template gives it.
export function $<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

export const field = (id: string) => $<HTMLInputElement>(id);

// Announces a text, to screen readers too; the same text once.
export function say(text: string, id = 'status') {
  const status = $(id);
  if (status.textContent !== text) status.textContent = text;
}

export const plural = (n: number, one: string, many = `${one}s`) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

// bytes is a size for people, in powers of 1000.
export function bytes(n: number) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  for (; n >= 1000 && at < units.length - 1; at++) n /= 1000;
  return `${n < 100 && at > 0 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

// copy puts a text on the clipboard and says so.
export function copy(text: string, tell: (text: string) => void, done: string) {
  navigator.clipboard.writeText(text).then(() => tell(done)).catch((err) => tell(message(err)));
}

// onSubmit does a form's work in place of sending it, and tells what went wrong.
export function onSubmit(id: string, work: (form: HTMLFormElement) => Promise<void> | void, tell = say) {
  const form = $<HTMLFormElement>(id);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    Promise.resolve().then(() => work(form)).catch((err) => tell(message(err)));
  });
}

// during disables a button while work is done, and tells what went wrong.
export async function during(button: HTMLButtonElement, work: () => Promise<void>, tell = say) {
  button.disabled = true;
  try {
    await work();
  } catch (err) {
    tell(message(err));
  }
  button.disabled = false;
}

const stateTexts: Partial<Record<Video['state'], string>> = {
  awaiting_upload: 'Waiting for the upload',
  uploaded: 'Waiting for a worker',
  processing: 'Processing',
  ready: 'Ready',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

// Lists know the progress only coarsely: exact is for the video itself.
export function stateText(video: Video, exact = false) {
  let text: string = stateTexts[video.state] || video.state;
  if (exact && video.state === 'processing') text += ` ${video.progress.percent} %`;
  if (video.playable && ['awaiting_upload', 'processing'].includes(video.state)) text += ', can be watched already';
  if (video.error) text += `: ${video.error.detail}`;
  return text;
}

export const settled = (video: Video) => ['ready', 'failed', 'cancelled'].includes(video.state);

// seconds is a time for people, in the largest unit that has some.
export function seconds(n: number) {
  const s = Math.round(n);
  if (s < 100) return `${s} s`;
  return s < 6000 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

export function duration(seconds: number) {
  const s = Math.round(seconds);
  const two = (n: number) => String(n).padStart(2, '0');
  const rest = `${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return s >= 3600 ? `${Math.floor(s / 3600)}:${rest}` : rest.replace(/^0/, '');
}
