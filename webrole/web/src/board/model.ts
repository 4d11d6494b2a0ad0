// What the board knows, and where each message is. It is told by events, and says in
// words what happened. Nothing here touches the page.
import type { Schemas } from '../api';

export type Poison = Schemas['Poison'];
export type BoardEvent = Schemas['BoardEvent'];
export type BoardQueue = Schemas['BoardQueue'];
export type BoardLane = Schemas['BoardLane'];
export type BoardTask = Schemas['BoardTask'];
export type BoardWorker = Schemas['BoardWorker'];
type BoardSample = Schemas['BoardSample'];
type Scale = Schemas['Scale'];

export type Place =
  | { kind: 'lane'; lane: string } // visible
  | { kind: 'slot'; worker: string; pool: string; slot: number } // held
  | { kind: 'hidden'; lane: string } // its worker is gone: it comes back when the lease ends
  | { kind: 'poison' };

export interface Lease { worker: string; since: number; endsAt: number; seconds: number; renewals: number }

export interface Token {
  id: string;
  queue: string; // with lane
  step: string;
  video: string;
  place: Place;
  dequeues: number;
  index?: number | undefined;
  item?: string | undefined;
  row?: string | undefined;
  inserted?: string | undefined;
  failures?: number | undefined;
  error?: string | undefined;
  lease?: Lease | undefined;
  poison?: Poison | undefined;
  left?: number | undefined; // when it was missed in its lane, and in no slot yet
}

// Every video has a colour and a short name, both made from its id, so that they are
// the same wherever it is shown. The colour is never the only sign.

// hue spreads ids over the circle of colours: FNV-1a, as ids differ in every place.
export function hue(id: string) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193) >>> 0;
  return Math.round((hash % 3600) / 10);
}

export const short = (id: string) => id.slice(0, 3) || '–';

// How long a message that its worker forgot is expected back after its lease ended.
const patience = 8000;

// How long a message that left its lane is expected in a slot: queues are looked at at
// other moments than workers tell of themselves. Until then it is shown where it was.
const between = 3000;

export const placeKey = (p: Place) => {
  switch (p.kind) {
    case 'lane': case 'hidden': return `lane ${p.lane}`;
    case 'slot': return `slot ${p.worker} ${p.pool} ${p.slot}`;
    case 'poison': return 'poison';
  }
};

const byName = <T extends { name: string }>(items: T[]) => new Map(items.map((item): [string, T] => [item.name, item]));

export class Model {
  queues = new Map<string, BoardQueue>();
  workers = new Map<string, BoardWorker>();
  readonly titles = new Map<string, string>();
  poison: Poison[] = [];
  samples: BoardSample[] = [];
  trouble = '';
  scale: Scale | undefined;
  tokens = new Map<string, Token>();
  // Of the web role's clock minus ours, in ms: leases are told in its time.
  ahead = 0;

  now() { return Date.now() + this.ahead; }

  // apply takes a state in, and returns what happened since the last in words, oldest first.
  apply(event: BoardEvent): string[] {
    this.ahead = Date.parse(event.at) - Date.now();
    const first = this.queues.size === 0;
    const workers = byName(event.workers);
    const words: string[] = [];
    for (const name of this.workers.keys()) {
      if (!workers.has(name)) words.push(`Worker ${name} has left.`);
    }
    for (const q of event.queues) tellQueue(this.queues.get(q.name), q, words);
    for (const w of event.workers) tellWorker(this.workers.get(w.name), w, words);
    if (this.scale && this.scale.wanted !== event.scale.wanted) {
      words.push(`The queues want ${event.scale.wanted === 1 ? '1 worker' : `${event.scale.wanted} workers`}: ${event.scale.why}.`);
    }
    if (event.trouble !== this.trouble) words.push(event.trouble || 'Storage answers again.');
    this.queues = byName(event.queues);
    this.workers = workers;
    this.poison = event.poison;
    this.samples = event.samples;
    this.scale = event.scale;
    this.trouble = event.trouble;
    for (const v of event.videos) this.titles.set(v.id, v.title);
    const before = this.tokens;
    this.tokens = this.place(before);
    this.tell(before, words);
    return first ? [] : words;
  }

  // expire forgets hidden messages that did not come back: they were done after all.
  expire(): boolean {
    let changed = false;
    for (const [id, { place, lease, left }] of this.tokens) {
      const until = place.kind === 'hidden' && lease ? lease.endsAt + patience : left !== undefined && left + between;
      if (until === false || until >= this.now()) continue;
      this.tokens.delete(id);
      changed = true;
    }
    return changed;
  }

  title(video: string) { return this.titles.get(video) || ''; }

  // name is how words speak of a message.
  name(t: Token) {
    const what = t.step ? t.step + (t.index === undefined ? '' : ` ${t.index}`) : 'a message that cannot be read';
    const title = this.title(t.video);
    return title ? `${what} of “${title}”` : t.video ? `${what} of ${t.video.slice(0, 6)}` : what;
  }

  // base is the queue of a lane.
  base(lane: string) {
    return [...this.queues.values()].find((q) => q.lanes.some((l) => l.name === lane));
  }

  held(lane: string) {
    return [...this.tokens.values()].filter((t) => t.queue === lane && (t.place.kind === 'slot' || t.place.kind === 'hidden')).length;
  }

  // place says where each message is now. What a worker held and forgot without an end
  // that we saw is hidden until its lease ends.
  private place(before: Map<string, Token>) {
    const now = new Map<string, Token>();
    for (const q of this.queues.values()) {
      for (const lane of q.lanes) {
        for (const m of lane.messages) {
          now.set(m.id, {
            id: m.id, queue: lane.name, step: m.step ?? '', video: m.video ?? '', dequeues: m.dequeueCount, place: { kind: 'lane', lane: lane.name },
            index: m.index, item: m.item, row: m.row, inserted: m.insertedAt, failures: m.failures, error: m.error,
          });
        }
      }
    }
    for (const w of this.workers.values()) this.placeTasks(w, before, now);
    for (const p of this.poison) {
      const id = p.id.slice(p.id.indexOf('~') + 1);
      now.set(id, { ...before.get(id), id, queue: p.queue, step: p.step ?? '', video: p.subject ?? '', dequeues: before.get(id)?.dequeues ?? 0, place: { kind: 'poison' }, failures: p.failures, poison: p, lease: undefined });
    }
    for (const [id, t] of before) {
      if (!now.has(id) && t.place.kind === 'lane' && (t.left ?? this.now()) + between >= this.now()) {
        now.set(id, { ...t, left: t.left ?? this.now() });
        continue;
      }
      if (now.has(id) || !t.lease || t.lease.endsAt + patience < this.now()) continue;
      const worker = this.workers.get(t.lease.worker);
      const died = t.place.kind === 'hidden' || !worker || worker.silent || Date.parse(worker.startedAt) > t.lease.since;
      if (died) now.set(id, { ...t, place: { kind: 'hidden', lane: t.queue } });
    }
    return now;
  }

  // placeTasks lets every message keep its slot, and gives new ones the first free.
  private placeTasks(w: BoardWorker, before: Map<string, Token>, now: Map<string, Token>) {
    const slotOf = ({ id }: BoardTask) => {
      const was = before.get(id)?.place;
      return was?.kind === 'slot' && was.worker === w.name ? was.slot : undefined;
    };
    const taken = new Set<string>();
    for (const t of [...w.tasks.filter((t) => slotOf(t) !== undefined), ...w.tasks.filter((t) => slotOf(t) === undefined)]) {
      const pool = this.base(t.queue)?.pool ?? '';
      let slot = slotOf(t) ?? 0;
      while (taken.has(`${pool} ${slot}`)) slot++;
      taken.add(`${pool} ${slot}`);
      now.set(t.id, {
        id: t.id, queue: t.queue, step: t.step, video: t.video, dequeues: t.dequeueCount, place: { kind: 'slot', worker: w.name, pool, slot },
        index: t.index, item: t.item, row: t.row, inserted: t.insertedAt,
        lease: { worker: w.name, since: Date.parse(t.since), endsAt: Date.parse(t.leaseEndsAt), seconds: t.visibilitySeconds, renewals: t.renewals },
      });
    }
  }

  private tell(before: Map<string, Token>, words: string[]) {
    for (const [id, t] of this.tokens) {
      const was = before.get(id);
      const from = was?.place.kind;
      if (t.place.kind === 'slot' && (was?.place.kind !== 'slot' || was.place.worker !== t.place.worker)) {
        words.push(`${t.place.worker} took ${this.name(t)}${t.dequeues > 1 ? `, delivery ${t.dequeues}` : ''}.`);
      } else if (t.place.kind === 'lane' && (from === 'slot' || from === 'hidden' || (!was && t.dequeues > 0))) {
        words.push(`${this.name(t)} is back in ${t.queue} after ${t.dequeues === 1 ? 'one delivery' : `${t.dequeues} deliveries`}.`);
      } else if (t.place.kind === 'lane' && !was) {
        words.push(`${this.name(t)} waits in ${t.queue}.`);
      } else if (t.place.kind === 'hidden' && from === 'slot') {
        words.push(`${this.name(t)} is hidden until its lease ends.`);
      } else if (t.place.kind === 'poison' && from !== 'poison') {
        words.push(`${this.name(t)} is poison: ${t.poison?.reason ?? ''}`);
      }
    }
    for (const [id, t] of before) {
      if (this.tokens.has(id)) continue;
      if (t.place.kind === 'slot') words.push(`${t.place.worker} is through with ${this.name(t)}.`);
      else if (t.place.kind === 'poison') words.push(`${this.name(t)} is no longer poison.`);
      else if (t.place.kind === 'lane') words.push(`${this.name(t)} is gone from ${t.queue}.`);
    }
  }
}

function tellQueue(was: BoardQueue | undefined, q: BoardQueue, words: string[]) {
  if (!was) return;
  if (was.paused !== q.paused) words.push(`Queue ${q.name} is ${q.paused ? 'paused' : 'resumed'}.`);
  if (was.visibilitySeconds !== q.visibilitySeconds) words.push(`Visibility of ${q.name} is ${q.visibilitySeconds} s now, it was ${was.visibilitySeconds} s.`);
}

function tellWorker(was: BoardWorker | undefined, w: BoardWorker, words: string[]) {
  if (!was) {
    words.push(`Worker ${w.name} is here.`);
    return;
  }
  if (was.startedAt !== w.startedAt) words.push(`Worker ${w.name} started again.`);
  else if (!was.silent && w.silent) words.push(`Worker ${w.name} is silent. What it holds comes back when the leases end.`);
  else if (was.silent && !w.silent) words.push(`Worker ${w.name} is heard again.`);
  if (!was.draining && w.draining) words.push(`Worker ${w.name} stops and gives its messages back.`);
  if (!was.leader && w.leader) words.push(`Worker ${w.name} is the leader now.`);
  if ((was.trouble ?? '') !== (w.trouble ?? '')) words.push(w.trouble ? `Worker ${w.name} receives nothing: ${w.trouble}` : `Worker ${w.name} receives again.`);
}
