// The living picture: tokens in lanes and slots. An element belongs to one message
// for as long as that is on the board, so that a move is a move and focus stays.
import { $, element, svg } from '../api';
import type { BoardQueue, BoardWorker } from '../api';
import { hue, short } from './colour';
import { type Model, type Place, type Token, placeKey } from './model';
import { type Plot, plot } from './plot';
import type { TableActions } from './tables';

const moveMs = 420;
const still = matchMedia('(prefers-reduced-motion: reduce)');

export interface Actions extends TableActions {
  follow(id: string): void;
}

interface TokenView { node: HTMLButtonElement; name: HTMLElement; label: HTMLElement; badge: HTMLElement; ring: SVGCircleElement; at: string; looks: string }
interface LaneView { node: HTMLElement; tokens: HTMLElement; more: HTMLElement; name: HTMLElement }
interface QueueView {
  node: HTMLElement; facts: HTMLElement; pause: HTMLButtonElement; clear: HTMLButtonElement;
  lanes: Map<string, LaneView>; done: Plot; age: Plot;
}
interface SlotView { node: HTMLElement; seat: HTMLElement; text: HTMLElement; left: HTMLElement }
interface WorkerView { node: HTMLElement; facts: HTMLElement; chips: HTMLElement; trouble: HTMLElement; pools: HTMLElement; rows: Map<string, HTMLElement>; slots: Map<string, SlotView> }
interface PoisonView { node: HTMLElement; seat: HTMLElement; looks: string }

function setText(node: Element, text: string) {
  if (node.textContent !== text) node.textContent = text;
}

export class Picture {
  private readonly tokens = new Map<string, TokenView>();
  private readonly queues = new Map<string, QueueView>();
  private readonly workers = new Map<string, WorkerView>();
  private readonly poison = new Map<string, PoisonView>();
  private leaving = 0;
  private readonly lifted = new Map<string, DOMRect>(); // where tokens were that are in the air

  constructor(
    private readonly model: Model, private readonly actions: Actions,
    private readonly queueList: HTMLElement, private readonly workerList: HTMLElement, private readonly goneList: HTMLElement, private readonly poisonList: HTMLElement, private readonly air: HTMLElement,
  ) {}

  // draw makes the page look like the model. With motion, tokens travel.
  draw(motion: boolean) {
    const moving = motion && !still.matches && !document.hidden;
    for (const q of this.model.queues.values()) this.drawQueue(q);
    this.drawWorkers();
    this.drawPoison();
    this.drawTokens(moving);
    this.drawLanes();
    for (const w of this.workers.values()) {
      for (const slot of w.slots.values()) {
        const free = slot.seat.childElementCount === 0;
        slot.node.toggleAttribute('data-free', free);
        if (free) {
          setText(slot.text, '');
          setText(slot.left, '');
        }
      }
    }
    this.tick();
  }

  // tick lets the rings run out. It is cheap: nothing is measured.
  tick() {
    const now = this.model.now();
    for (const [id, t] of this.model.tokens) {
      const view = this.tokens.get(id);
      if (!view || !t.lease) continue;
      const left = Math.max(0, Math.min(1, (t.lease.endsAt - now) / (t.lease.seconds * 1000 || 1)));
      const offset = (100 * (1 - left)).toFixed(0); // whole percents: what cannot be seen is not painted
      if (view.ring.getAttribute('stroke-dashoffset') !== offset) view.ring.setAttribute('stroke-dashoffset', offset);
      if (t.place.kind === 'slot') {
        const slot = this.workers.get(t.place.worker)?.slots.get(`${t.place.pool} ${t.place.slot}`);
        if (!slot) continue;
        setText(slot.text, t.step + (t.index === undefined ? '' : ` ${t.index}`));
        setText(slot.left, `${Math.max(0, Math.ceil((t.lease.endsAt - now) / 1000))} s${t.lease.renewals ? ` ↻${t.lease.renewals}` : ''}`);
      }
    }
  }

  samples() {
    const { samples } = this.model;
    for (const [name, view] of this.queues) {
      const done = samples.map((s) => ((s.queues[name]?.done ?? 0) / s.seconds) * 60);
      const age = samples.map((s) => s.queues[name]?.oldestSeconds ?? 0);
      view.done.show(done, `${Math.round(done.at(-1) ?? 0)}/min`, `${Math.round(done.at(-1) ?? 0)} done a minute`);
      view.age.show(age, seconds(age.at(-1) ?? 0), `the oldest waits ${seconds(age.at(-1) ?? 0)}`);
    }
  }

  get ids() { return [...this.tokens.keys()]; }

  focusOn(id: string) { this.tokens.get(id)?.node.focus(); }

  mark(id: string) {
    for (const [key, view] of this.tokens) view.node.toggleAttribute('data-followed', key === id);
  }

  private drawQueue(q: BoardQueue) {
    let view = this.queues.get(q.name);
    if (!view) {
      view = this.makeQueue(q);
      this.queues.set(q.name, view);
      this.queueList.append(view.node);
    }
    const changed = q.visibilityChangedAt ? `, changed ${new Date(q.visibilityChangedAt).toLocaleTimeString()}` : '';
    const raised = q.visibilitySeconds !== q.declaredVisibilitySeconds ? ` (declared ${q.declaredVisibilitySeconds} s${changed})` : changed;
    setText(view.facts, `${q.pool} · hidden for ${q.visibilitySeconds} s${raised}`);
    view.node.classList.toggle('paused', q.paused);
    view.node.classList.toggle('idle', q.lanes.every((l) => l.length === 0));
    setText(view.pause, q.paused ? 'Resume' : 'Pause');
    view.pause.setAttribute('aria-label', `${q.paused ? 'Resume' : 'Pause'} queue ${q.name}`);
  }

  private makeQueue(q: BoardQueue): QueueView {
    const facts = element('p', { class: 'queue-facts' });
    const pause = element('button', { type: 'button', class: 'small' });
    const clear = element('button', { type: 'button', class: 'small', 'aria-label': `Clear queue ${q.name}` }, 'Clear');
    pause.addEventListener('click', () => this.actions.pause(this.model.queues.get(q.name) ?? q, pause));
    clear.addEventListener('click', () => this.actions.clear(q.name));
    const done = plot('done'), age = plot('age');
    const lanes = new Map<string, LaneView>();
    const rows = element('div', { class: 'lanes' });
    for (const [i, lane] of q.lanes.entries()) {
      const name = element('span', { class: 'lane-name', 'aria-hidden': true }, q.lanes.length > 1 ? `lane ${i}` : '');
      const tokens = element('div', { class: 'tokens', role: 'group', 'aria-label': q.lanes.length > 1 ? `${q.name}, lane ${i}` : q.name });
      const more = element('span', { class: 'more' });
      const node = element('div', { class: 'lane', hidden: i > 0 }, name, tokens, more);
      rows.append(node);
      lanes.set(lane.name, { node, tokens, more, name });
    }
    const node = element('li', { class: 'queue', 'data-queue': q.name },
      element('div', { class: 'queue-head' }, element('h3', {}, q.name), facts, element('div', { class: 'plots' }, done.node, age.node)),
      rows,
      element('div', { class: 'queue-actions' }, pause, clear));
    return { node, facts, pause, clear, lanes, done, age };
  }

  private drawLanes() {
    for (const q of this.model.queues.values()) {
      const view = this.queues.get(q.name);
      if (!view) continue;
      const used = q.lanes.map((l) => l.length > 0 || (view.lanes.get(l.name)?.tokens.childElementCount ?? 0) > 0);
      const none = !used.includes(true);
      for (const [i, lane] of q.lanes.entries()) {
        const v = view.lanes.get(lane.name);
        if (!v) continue;
        v.node.hidden = !(used[i] || (none && i === 0));
        const unseen = Math.max(0, lane.visible - lane.messages.length);
        const hidden = Math.max(0, lane.length - lane.visible - this.model.held(lane.name));
        const parts = [unseen ? `+${unseen} more` : '', hidden ? `${hidden} hidden` : ''].filter(Boolean);
        setText(v.more, none ? (q.paused ? 'paused' : 'empty') : parts.join(', '));
      }
    }
  }

  private drawWorkers() {
    const names = new Set(this.model.workers.keys());
    for (const [name, view] of this.workers) {
      if (names.has(name)) continue;
      this.lift(view.node);
      view.node.remove();
      this.workers.delete(name);
    }
    for (const w of this.model.workers.values()) this.drawWorker(w);
    this.workerList.toggleAttribute('data-none', names.size === 0);
    this.fold();
  }

  // fold leaves one line of those that are silent and hold nothing any more, unless storage
  // does not tell who is.
  private fold() {
    const holds = new Set([...this.model.tokens.values()].map((t) => (t.place.kind === 'slot' ? t.place.worker : '')));
    const gone = this.model.trouble ? [] : [...this.model.workers.values()].filter((w) => w.silent && !holds.has(w.name)).map((w) => w.name);
    for (const [name, view] of this.workers) view.node.hidden = gone.includes(name);
    setText(this.goneList, gone.length ? `${gone.length} gone: ${gone.join(', ')}` : '');
  }

  private drawWorker(w: BoardWorker) {
    let view = this.workers.get(w.name);
    if (!view) {
      const facts = element('p', { class: 'worker-facts' }), chips = element('span', { class: 'chips' });
      const trouble = element('p', { class: 'trouble', hidden: true }), pools = element('div', { class: 'pools' });
      const node = element('li', { class: 'worker', 'data-worker': w.name }, element('div', { class: 'worker-head' }, element('h3', {}, w.name), chips), trouble, pools, facts);
      view = { node, facts, chips, trouble, pools, rows: new Map(), slots: new Map() };
      this.workers.set(w.name, view);
      this.workerList.append(node);
    }
    const states = [w.leader && !w.silent ? 'leader' : '', w.draining ? 'stopping' : '', w.silent ? 'silent' : '', w.trouble ? 'receives nothing' : '',
      ...w.breakers.map((b) => `${b.dependency} ${b.state}`)].filter(Boolean);
    if (view.chips.textContent !== states.join('')) view.chips.replaceChildren(...states.map((s) => element('span', { class: 'tag' }, s)));
    view.node.classList.toggle('silent', w.silent);
    const trouble = w.trouble ?? w.breakers[0]?.reason ?? '';
    view.trouble.hidden = !trouble;
    setText(view.trouble, trouble);
    setText(view.facts, `${w.done} done · ${w.failed} attempts failed · ${w.staleLeases} late receipts`);
    this.drawSlots(w, view);
  }

  // drawSlots shows as many slots as a pool has, and more while they are taken: what is
  // urgent has a slot beyond the pool's size.
  private drawSlots(w: BoardWorker, view: WorkerView) {
    const sizes = new Map(Object.entries(w.pools).sort());
    for (const t of this.model.tokens.values()) {
      if (t.place.kind === 'slot' && t.place.worker === w.name) sizes.set(t.place.pool, Math.max(sizes.get(t.place.pool) ?? 0, t.place.slot + 1));
    }
    for (const [pool, size] of sizes) {
      let row = view.rows.get(pool);
      if (!row && size > 0) {
        row = element('div', { class: 'slots', role: 'group', 'aria-label': `${w.name}, slots for ${pool} work` });
        view.rows.set(pool, row);
        view.pools.append(element('div', { class: 'pool' }, element('span', { class: 'pool-name' }, pool), row));
      }
      if (!row) continue;
      for (let i = row.childElementCount; i < size; i++) {
        const seat = element('span', { class: 'seat' }), text = element('span', { class: 'slot-step' }), left = element('span', { class: 'slot-left' });
        const node = element('div', { class: 'slot' }, seat, element('span', { class: 'slot-text' }, text, left));
        view.slots.set(`${pool} ${i}`, { node, seat, text, left });
        row.append(node);
      }
      for (let i = row.childElementCount - 1; i >= size; i--) {
        const last = view.slots.get(`${pool} ${i}`);
        if (!last || last.seat.childElementCount > 0) break; // its token leaves in this very drawing
        last.node.remove();
        view.slots.delete(`${pool} ${i}`);
      }
    }
  }

  private drawPoison() {
    const ids = new Set(this.model.poison.map((p) => p.id));
    let lost = false; // the focus goes with an item
    for (const [id, view] of this.poison) {
      if (ids.has(id)) continue;
      this.lift(view.node);
      lost ||= view.node.contains(document.activeElement);
      view.node.remove();
      this.poison.delete(id);
    }
    for (const p of this.model.poison) {
      if (this.poison.has(p.id)) continue;
      const seat = element('span', { class: 'seat' });
      const what = `${p.step || 'item'} of queue ${p.queue}`;
      const redrive = element('button', { type: 'button', class: 'small', 'aria-label': `Redrive ${what}` }, 'Redrive');
      redrive.addEventListener('click', () => this.actions.redrive(p));
      const node = element('li', { class: 'poisoned' }, seat,
        element('div', { class: 'poison-text' }, element('p', {}, element('strong', {}, what), ` · ${p.failures ?? 0} failures · ${new Date(p.poisonedAt).toLocaleString()}`), element('p', { class: 'reason' }, p.reason)), redrive);
      this.poison.set(p.id, { node, seat, looks: '' });
      this.poisonList.append(node);
    }
    this.poisonList.toggleAttribute('data-none', ids.size === 0);
    if (lost) (this.poisonList.querySelector<HTMLElement>('button.small') ?? $('poison-title')).focus();
  }

  // lift saves the tokens of a part of the picture that is about to go.
  private lift(part: HTMLElement) {
    for (const [id, view] of this.tokens) {
      if (part.contains(view.node)) {
        this.lifted.set(id, view.node.getBoundingClientRect());
        view.at = '';
        this.air.append(view.node);
      }
    }
  }

  // drawTokens moves what moved. Places are measured before and after, all at once, so
  // that the page is laid out twice and not once for each token.
  private drawTokens(moving: boolean) {
    const { tokens } = this.model;
    const fresh: string[] = [], moved: string[] = [], gone: string[] = [];
    const touched = new Set<string>();
    for (const [id, t] of tokens) {
      const view = this.tokens.get(id), key = placeKey(t.place);
      if (!view) fresh.push(id);
      else if (view.at !== key) {
        moved.push(id);
        touched.add(view.at);
      } else continue;
      touched.add(key);
    }
    for (const [id, view] of this.tokens) {
      if (tokens.has(id)) continue;
      gone.push(id);
      touched.add(view.at);
    }
    // Those behind them in the lane close up without being animated: each token that moves
    // is a picture of its own for the browser, and thirty at a time are what it notices.
    const watched = moving ? [...moved, ...gone] : [];
    const from = new Map<string, DOMRect>();
    for (const id of watched) {
      const rect = this.lifted.get(id) ?? this.tokens.get(id)?.node.getBoundingClientRect();
      if (rect) from.set(id, rect);
    }
    this.lifted.clear();
    const focused = document.activeElement;

    for (const id of gone) this.leave(id, from.get(id));
    for (const id of fresh) this.tokens.set(id, this.makeToken(id));
    for (const [id, t] of tokens) this.dress(id, t);
    for (const [id, t] of tokens) {
      const view = this.tokens.get(id), key = placeKey(t.place);
      if (!view || view.at === key) continue;
      this.seatOf(t.place, t)?.append(view.node);
      view.at = key;
    }
    this.order(touched);
    if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });

    if (!moving) return;
    const now = [...from].map(([id, was]) => ({ node: this.tokens.get(id)?.node, was })).filter((m) => m.node?.isConnected)
      .map((m) => ({ ...m, is: m.node?.getBoundingClientRect() }));
    for (const { node, was, is } of now) {
      if (!node || !is) continue;
      // Only the transform is animated, so that the browser moves a picture and does not
      // look at the page for every frame.
      const move = node.animate([{ transform: `translate(${was.x - is.x}px, ${was.y - is.y}px)` }, { transform: 'none' }],
        { duration: moveMs, easing: 'cubic-bezier(.3,.7,.2,1)' });
      node.style.zIndex = '5';
      const land = () => { node.style.zIndex = ''; };
      move.finished.then(land, land);
    }
    for (const id of fresh.slice(0, 12)) this.tokens.get(id)?.node.animate([{ opacity: 0, transform: 'scale(.4)' }, { opacity: 1, transform: 'none' }], { duration: moveMs / 3 });
  }

  // order puts the tokens of lanes into the order of the queue.
  private order(touched: Set<string>) {
    for (const q of this.model.queues.values()) {
      for (const lane of q.lanes) {
        if (!touched.has(`lane ${lane.name}`)) continue;
        const box = this.queues.get(q.name)?.lanes.get(lane.name)?.tokens;
        let at = box?.firstElementChild ?? null;
        for (const m of lane.messages) {
          const view = this.tokens.get(m.id);
          if (!box || !view || view.at !== `lane ${lane.name}`) continue;
          if (view.node === at) at = at.nextElementSibling;
          else box.insertBefore(view.node, at);
        }
      }
    }
  }

  private seatOf(p: Place, t: Token): HTMLElement | undefined {
    switch (p.kind) {
      case 'lane': case 'hidden': return this.queues.get(this.model.base(p.lane)?.name ?? '')?.lanes.get(p.lane)?.tokens;
      case 'slot': return this.workers.get(p.worker)?.slots.get(`${p.pool} ${p.slot}`)?.seat;
      case 'poison': return this.poison.get(t.poison?.id ?? '')?.seat;
    }
  }

  private makeToken(id: string): TokenView {
    const label = element('span', { class: 'token-label', 'aria-hidden': true }), badge = element('span', { class: 'token-badge', 'aria-hidden': true, hidden: true });
    const name = element('span', { class: 'unseen' });
    const ring = svg('circle', { cx: '18', cy: '18', r: '16', pathLength: '100', 'stroke-dasharray': '100' });
    const back = svg('circle', { class: 'ring-back', cx: '18', cy: '18', r: '16' });
    const box = svg('svg', { class: 'ring', viewBox: '0 0 36 36', 'aria-hidden': 'true' }, back, ring);
    const node = element('button', { type: 'button', class: 'token', tabindex: -1, 'data-id': id }, box, label, badge, name);
    node.addEventListener('click', () => this.actions.follow(id));
    return { node, name, label, badge, ring, at: '', looks: '' };
  }

  private dress(id: string, t: Token) {
    const view = this.tokens.get(id);
    if (!view) return;
    const text = `${this.model.name(t)}, ${where(t)}${t.dequeues ? `, delivered ${t.dequeues === 1 ? 'once' : `${t.dequeues} times`}` : ''}`;
    const looks = `${text} ${t.place.kind} ${t.video}`;
    if (view.looks === looks) return;
    view.looks = looks;
    setText(view.name, text);
    view.node.title = text;
    view.node.dataset['state'] = t.place.kind;
    view.node.style.setProperty('--hue', String(hue(t.video)));
    setText(view.label, t.video ? short(t.video) : '?');
    const again = t.place.kind === 'slot' ? t.dequeues > 1 : t.dequeues > 0;
    view.badge.hidden = !again || t.place.kind === 'poison';
    setText(view.badge, String(t.dequeues));
    if (t.place.kind !== 'slot' && t.place.kind !== 'hidden') view.ring.setAttribute('stroke-dashoffset', '100');
  }

  private leave(id: string, rect: DOMRect | undefined) {
    const view = this.tokens.get(id);
    if (!view) return;
    this.tokens.delete(id);
    const done = view.at.startsWith('slot ');
    view.node.remove();
    if (!rect || !done || this.leaving > 12) return;
    // It is no button any more, and leaves to where finished work goes: out of the picture.
    const ghost = element('span', { class: 'token leaving', 'aria-hidden': true }, '✓');
    ghost.style.setProperty('--hue', view.node.style.getPropertyValue('--hue'));
    const origin = this.air.getBoundingClientRect();
    ghost.style.left = `${rect.x - origin.x}px`;
    ghost.style.top = `${rect.y - origin.y}px`;
    this.air.append(ghost);
    this.leaving++;
    const end = () => { this.leaving--; ghost.remove(); };
    ghost.animate([{ transform: 'none', opacity: 1 }, { transform: 'translateX(2.5rem) scale(.7)', opacity: 0 }], { duration: moveMs, easing: 'ease-in' }).finished.then(end, end);
  }
}

export function where(t: Token) {
  switch (t.place.kind) {
    case 'lane': return `waiting in ${t.place.lane}`;
    case 'hidden': return `hidden in ${t.place.lane}`;
    case 'slot': return `held by ${t.place.worker}`;
    case 'poison': return `poison of ${t.queue}`;
  }
}

export function seconds(n: number) {
  const s = Math.round(n);
  if (s < 100) return `${s} s`;
  return s < 6000 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}
