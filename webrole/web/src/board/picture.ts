// The living picture: tokens in lanes and slots. A token belongs to one message for as
// long as that is on the board, so that a move is a move and focus stays.
import { $, seconds } from '../api';
import { type Html, add, drawAll, html } from '../html';
import { type BoardLane, type BoardQueue, type BoardWorker, type Model, type Poison, type Token, hue, placeKey, short } from './model';
import { plot } from './plot';
import { where } from './words';

const moveMs = 420;
const mostAtOnce = 12; // that appear or leave as animations
const still = matchMedia('(prefers-reduced-motion: reduce)');

export const tokenOf = (id: string) => document.getElementById(`token-${id}`);

export class Picture {
  private shown = new Map<string, Token>();
  private places = new Map<string, Token[]>(); // by the key of the place
  private followed = '';

  constructor(private readonly model: Model) {}

  // draw makes the page look like the model. With motion, tokens travel; those behind them
  // close up at once, because each that moves is a picture of its own for the browser. Places
  // are measured before and after, all together, so that the page is laid out twice and not
  // once for each token.
  draw(motion: boolean) {
    const { tokens } = this.model;
    const moving = motion && !still.matches && !document.hidden;
    const before = [...this.shown.values()].filter((t) => moving && placeKey(t.place) !== this.keyOf(t.id))
      .map((t) => ({ token: t, rect: tokenOf(t.id)?.getBoundingClientRect() }));
    const fresh = [...tokens.keys()].filter((id) => moving && !this.shown.has(id));
    this.drawParts();
    const after = before.map((was) => ({ ...was, node: tokenOf(was.token.id), is: tokenOf(was.token.id)?.getBoundingClientRect() }));
    for (const { token, rect, node, is } of after) {
      if (rect && node && is) travel(node, rect, is);
      else if (rect && token.place.kind === 'slot') this.leave(token, rect);
    }
    for (const id of fresh.slice(0, mostAtOnce)) tokenOf(id)?.animate([{ opacity: 0, transform: 'scale(.4)' }, { opacity: 1, transform: 'none' }], { duration: moveMs / 3 });
    this.shown = new Map(tokens);
  }

  // follow marks a token; empty marks none.
  follow(id: string) {
    for (const old of [this.followed, id]) tokenOf(old)?.toggleAttribute('data-followed', old === id);
    this.followed = id;
  }

  private keyOf(id: string) {
    const token = this.model.tokens.get(id);
    return token && placeKey(token.place);
  }

  private at(key: string) { return this.places.get(key) ?? []; }

  private drawParts() {
    const { model } = this;
    this.places.clear();
    for (const t of model.tokens.values()) this.places.set(placeKey(t.place), [...this.at(placeKey(t.place)), t]);
    const gone = this.silentAndEmpty();
    drawAll([
      [$('board-queues'), html`${[...model.queues.values()].map((q) => this.queue(q))}`],
      [$('board-workers'), html`${[...model.workers.values()].map((w) => this.worker(w, gone.includes(w.name)))}`],
      [$('board-poison'), html`${model.poison.map((p) => this.poisoned(p))}`],
    ]);
    $('board-workers').toggleAttribute('data-none', model.workers.size === 0);
    $('board-poison').toggleAttribute('data-none', model.poison.length === 0);
    $('board-gone').textContent = gone.length ? `${gone.length} gone: ${gone.join(', ')}` : '';
  }

  // silentAndEmpty are the workers of which one line is enough; none while storage does not
  // tell who is silent.
  private silentAndEmpty() {
    const holds = new Set([...this.model.tokens.values()].map((t) => (t.place.kind === 'slot' ? t.place.worker : '')));
    return this.model.trouble ? [] : [...this.model.workers.values()].filter((w) => w.silent && !holds.has(w.name)).map((w) => w.name);
  }

  private queue(q: BoardQueue) {
    const { samples } = this.model;
    const changed = q.visibilityChangedAt ? `, changed ${new Date(q.visibilityChangedAt).toLocaleTimeString()}` : '';
    const raised = q.visibilitySeconds !== q.declaredVisibilitySeconds ? ` (declared ${q.declaredVisibilitySeconds} s${changed})` : changed;
    const done = samples.map((s) => ((s.queues[q.name]?.done ?? 0) / s.seconds) * 60), age = samples.map((s) => s.queues[q.name]?.oldestSeconds ?? 0);
    const rate = Math.round(done.at(-1) ?? 0), oldest = seconds(age.at(-1) ?? 0);
    const verb = q.paused ? 'Resume' : 'Pause';
    return html`<li id="queue-${q.name}" class="queue ${q.paused && 'paused'} ${q.lanes.every((l) => l.length === 0) && 'idle'}" data-queue="${q.name}">
      <div class="queue-head"><h3>${q.name}</h3><p class="queue-facts">${`${q.pool} · hidden for ${q.visibilitySeconds} s${raised}`}</p>
        <div class="plots">${plot('done', done, `${rate}/min`, `${rate} done a minute`)}${plot('age', age, oldest, `the oldest waits ${oldest}`)}</div></div>
      <div class="lanes">${this.lanes(q)}</div>
      <div class="queue-actions"><button type="button" class="small" data-press="pause" data-of="${q.name}" aria-label="${verb} queue ${q.name}">${verb}</button>
        <button type="button" class="small" data-press="clear" data-of="${q.name}" aria-label="Clear queue ${q.name}">Clear</button></div></li>`;
  }

  // lanes are those in use, or the first.
  private lanes(q: BoardQueue): Html[] {
    const used = q.lanes.map((lane) => lane.length > 0 || this.at(`lane ${lane.name}`).length > 0);
    const none = !used.includes(true);
    return q.lanes.map((lane, i) => {
      const name = q.lanes.length > 1 ? `lane ${i}` : '';
      const more = none ? (q.paused ? 'paused' : 'empty') : this.notShown(lane);
      return html`<div class="lane" ${!used[i] && !(none && i === 0) && 'hidden'}><span class="lane-name" aria-hidden="true">${name}</span>
        <div class="tokens" role="group" aria-label="${name ? `${q.name}, ${name}` : q.name}">${this.at(`lane ${lane.name}`).map((t) => this.token(t))}</div>
        <span class="more">${more}</span></div>`;
    });
  }

  private notShown(lane: BoardLane) {
    const unseen = Math.max(0, lane.visible - lane.messages.length);
    const hidden = Math.max(0, lane.length - lane.visible - this.model.held(lane.name));
    return [unseen ? `+${unseen} more` : '', hidden ? `${hidden} hidden` : ''].filter(Boolean).join(', ');
  }

  private worker(w: BoardWorker, hidden: boolean) {
    const states = [w.leader && !w.silent ? 'leader' : '', w.draining ? 'stopping' : '', w.silent ? 'silent' : '', w.trouble ? 'receives nothing' : '',
      ...w.breakers.map((b) => `${b.dependency} ${b.state}`)].filter(Boolean);
    const trouble = w.trouble ?? w.breakers[0]?.reason ?? '';
    return html`<li id="worker-${w.name}" class="worker ${w.silent && 'silent'}" data-worker="${w.name}" ${hidden && 'hidden'}>
      <div class="worker-head"><h3>${w.name}</h3><span class="chips">${states.map((state) => html`<span class="tag">${state}</span>`)}</span></div>
      <p class="trouble" ${!trouble && 'hidden'}>${trouble}</p>
      <div class="pools">${this.pools(w)}</div>
      <p class="worker-facts">${w.done} done · ${w.failed} attempts failed · ${w.staleLeases} late receipts</p>
      <div class="lab-place" data-own></div></li>`;
  }

  // pools show as many slots as each has, and more while they are taken: what is urgent has
  // a slot beyond the pool's size.
  private pools(w: BoardWorker) {
    const sizes = new Map(Object.entries(w.pools).sort());
    for (const { place } of this.model.tokens.values()) {
      if (place.kind === 'slot' && place.worker === w.name) sizes.set(place.pool, Math.max(sizes.get(place.pool) ?? 0, place.slot + 1));
    }
    return [...sizes].filter(([, size]) => size > 0).map(([pool, size]) => html`<div class="pool"><span class="pool-name">${pool}</span>
      <div class="slots" role="group" aria-label="${w.name}, slots for ${pool} work">${Array.from({ length: size }, (_, i) => this.slot(this.at(`slot ${w.name} ${pool} ${i}`)[0]))}</div></div>`);
  }

  private slot(t: Token | undefined) {
    const step = t && t.step + (t.index === undefined ? '' : ` ${t.index}`);
    const left = t?.lease && `${Math.max(0, Math.ceil((t.lease.endsAt - this.model.now()) / 1000))} s${t.lease.renewals ? ` ↻${t.lease.renewals}` : ''}`;
    return html`<div class="slot" ${!t && 'data-free'}><span class="seat">${t && this.token(t)}</span><span class="slot-text"><span class="slot-step">${step}</span><span class="slot-left">${left}</span></span></div>`;
  }

  private poisoned(p: Poison) {
    const t = this.at('poison').find(({ poison }) => poison === p);
    const what = `${p.step || 'item'} of queue ${p.queue}`;
    return html`<li id="poison-${p.id}" class="poisoned"><span class="seat">${t && this.token(t)}</span>
      <div class="poison-text"><p><strong>${what}</strong> · ${p.failures ?? 0} failures · ${new Date(p.poisonedAt).toLocaleString()}</p><p class="reason">${p.reason}</p></div>
      <button type="button" class="small" data-press="redrive" data-of="${p.id}" aria-label="Redrive ${what}">Redrive</button></li>`;
  }

  private token(t: Token) {
    const { kind } = t.place;
    const text = `${this.model.name(t)}, ${where(t)}${t.dequeues ? `, delivered ${t.dequeues === 1 ? 'once' : `${t.dequeues} times`}` : ''}`;
    const again = kind === 'slot' ? t.dequeues > 1 : kind !== 'poison' && t.dequeues > 0;
    const left = t.lease ? Math.max(0, Math.min(1, (t.lease.endsAt - this.model.now()) / (t.lease.seconds * 1000 || 1))) : 0;
    // In whole percents: what cannot be seen is not painted.
    return html`<button type="button" class="token" id="token-${t.id}" tabindex="-1" data-id="${t.id}" data-state="${kind}" data-style="--hue:${hue(t.video)}" title="${text}" data-press="follow" data-of="${t.id}" ${t.id === this.followed && 'data-followed'}><svg
      class="ring" viewBox="0 0 36 36" aria-hidden="true"><circle class="ring-back" cx="18" cy="18" r="16"></circle><circle cx="18" cy="18" r="16" pathLength="100" stroke-dasharray="100" stroke-dashoffset="${(100 * (1 - left)).toFixed(0)}"></circle></svg><span
      class="token-label" aria-hidden="true">${t.video ? short(t.video) : '?'}</span><span class="token-badge" aria-hidden="true" ${!again && 'hidden'}>${t.dequeues}</span><span class="unseen">${text}</span></button>`;
  }

  // leave lets a token go to where finished work goes: out of the picture. It is no button
  // any more.
  private leave(t: Token, rect: DOMRect) {
    const air = $('air');
    if (air.childElementCount >= mostAtOnce) return;
    const origin = air.getBoundingClientRect();
    add(air, html`<span class="token leaving" aria-hidden="true">✓</span>`);
    const ghost = air.lastElementChild as HTMLElement;
    for (const [name, value] of [['--hue', hue(t.video)], ['left', `${rect.x - origin.x}px`], ['top', `${rect.y - origin.y}px`]] as const) ghost.style.setProperty(name, String(value));
    const end = () => ghost.remove();
    ghost.animate([{ transform: 'none', opacity: 1 }, { transform: 'translateX(2.5rem) scale(.7)', opacity: 0 }], { duration: moveMs, easing: 'ease-in' }).finished.then(end, end);
  }
}

// travel moves a token from where it was. Only the transform is animated, so that the
// browser moves a picture and does not look at the page for every frame.
function travel(node: HTMLElement, was: DOMRect, is: DOMRect) {
  node.style.zIndex = '5';
  const land = () => { node.style.zIndex = ''; };
  node.animate([{ transform: `translate(${was.x - is.x}px, ${was.y - is.y}px)` }, { transform: 'none' }], { duration: moveMs, easing: 'cubic-bezier(.3,.7,.2,1)' }).finished.then(land, land);
}
