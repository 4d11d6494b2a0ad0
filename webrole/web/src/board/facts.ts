// Everything about one message: where it leads to, in storage, in the docs, in the code.
import { $, seconds } from '../api';
import { type Part, draw, html } from '../html';
import { type Model, type Token, hue } from './model';
import { where } from './words';

// Those with a file of their own; features have folders.
const coreSteps = ['probe', 'encode', 'audio', 'finish', 'index', 'purge'];

export class Facts {
  id = '';

  constructor(private readonly model: Model) {}

  show(id: string) {
    this.id = id;
    this.draw();
    $('follow').hidden = !id;
  }

  draw() {
    if (!this.id) return;
    const t = this.model.tokens.get(this.id);
    $('follow-title').textContent = t ? this.model.name(t) : 'This message is gone: its work is done, or it was cleared.';
    $('follow').style.setProperty('--hue', String(hue(t?.video ?? '')));
    draw($('follow-facts'), html`${t ? this.list(t).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`) : ''}`);
  }

  private list(t: Token): [string, Part][] {
    const now = this.model.now();
    const facts: [string, Part][] = [['Where', where(t)]];
    if (t.video) facts.push(['Video', html`<a href="/watch/${encodeURIComponent(t.video)}">${this.model.title(t.video) || t.video}</a>`]);
    facts.push(['Deliveries', t.dequeues || 'none yet']);
    if (t.failures) facts.push(['Failures', t.failures]);
    if (t.lease) facts.push(['Lease', `${seconds(Math.max(0, (t.lease.endsAt - now) / 1000))} left of ${t.lease.seconds} s, renewed ${t.lease.renewals === 1 ? 'once' : `${t.lease.renewals} times`}`]);
    if (t.inserted) facts.push(['Sent', new Date(t.inserted).toLocaleTimeString()]);
    if (t.poison) facts.push(['Reason', t.poison.reason]);
    if (t.error) facts.push(['Unreadable', t.error]);
    facts.push(['Message', code(t.id)]);
    if (t.item) facts.push(['Work item', code(t.item)]);
    if (t.row) facts.push(['Row', code(`videos · ${t.video} · ${t.row}`)]);
    facts.push(['Pattern', html`<a href="/patterns/${pattern(t)}">${code(`docs/patterns/${pattern(t)}.md`)}</a>`]);
    if (coreSteps.includes(t.step)) facts.push(['Code', code(`workerrole/internal/step/${t.step}.go`)]);
    return facts;
  }
}

const code = (text: string) => html`<code>${text}</code>`;

function pattern(t: Token) {
  switch (t.place.kind) {
    case 'poison': return 'poison-messages';
    case 'lane': return t.dequeues > 0 ? 'competing-consumers' : 'priority-queues';
    case 'slot': case 'hidden': return 'visibility-and-leases';
  }
}
