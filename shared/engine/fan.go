package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Window is how many runs of the leading step are promised with a plan, beside all its other
// parts, which are few. Each commit of a run promises the next one, or two when the queue is
// empty: a subject that is alone then soon uses all workers. If all runs were in the queue at
// once, subjects would be made one after another, and a cancelled one would leave hundreds behind.
const Window = 8

// promisedIn returns a message for every run of a stage that a plan promises, by index: a
// subject is usable only when it has the first run of each part.
func (d Declaration) promisedIn(m Meta, plan Plan, stage Stage) (messages []OutboxMessage) {
	for _, p := range d.StepsIn(plan, stage) {
		for i := range p.Items {
			messages = append(messages, d.messageFor(m, plan, p.Step, i))
		}
	}
	slices.SortStableFunc(messages, func(a, b OutboxMessage) int { return a.Index - b.Index })
	return messages
}

// promisedSince returns the messages for the gates and parts that were promised since another
// cursor. While the upload goes on, no gate but one that is early.
func (s *Product[V, P]) promisedSince(m Meta, doc P, before, now fanOutCursor) []OutboxMessage {
	plan := planOf(doc)
	all := append(s.promisedIn(m, plan, Gate), s.promisedIn(m, plan, Part)...)
	return slices.DeleteFunc(all, func(o OutboxMessage) bool {
		waits := m.State == AwaitingUpload && o.step.Stage == Gate && !o.step.Early
		return waits || s.isPromised(before, doc, o.step, o.Index) || !s.isPromised(now, doc, o.step, o.Index)
	})
}

// messageFor asks for one step of a plan.
func (d Declaration) messageFor(m Meta, plan Plan, step Step, index int) OutboxMessage {
	key := Key{ID: m.ID, Generation: plan.Generation, Step: step.Name, Index: index}
	return OutboxMessage{Queue: d.QueueOf(step, m, plan, index), Key: key, Version: m.ItemVersion, step: step}
}

// FirstMessage asks for the step that plans a generation.
func (d Declaration) FirstMessage(m Meta) OutboxMessage {
	return d.messageFor(m, Plan{Generation: m.Generation}, d.Only(First), 0)
}

// RequestMissing reports whether a run without a row was asked for, and since when; zero when
// only the message knows that.
func (v View[V, P]) RequestMissing(key Key) (asked bool, since time.Time) {
	m, doc := v.Meta(), v.Plans[key.Generation]
	plan, after := planOf(doc), First
	step := v.product.StepOf(key).in(plan)
	switch step.Stage {
	case First:
		if m.Generation == 1 {
			since = m.UploadedAt
		}
		return m.State.Active() && !m.UploadedAt.IsZero(), since
	case AfterReady:
		after = Last
	case Gate, Part:
		if m.State == AwaitingUpload && step.Stage == Gate && !step.Early {
			return false, since
		}
		if !v.product.isPromised(v.cursor[key.Generation], doc, step, key.Index) {
			return false, since
		}
		if v.product.Windowed(step) && key.Index >= Window {
			return true, since
		}
	}
	before, _ := v.Find(key.Generation, v.product.Only(after).Name, 0)
	if before.State != RunDone {
		return after == First, since
	}
	since = before.FinishedAt
	for _, gate := range v.product.promisedIn(m, plan, Gate) {
		waited := step.Stage == Part || step.Stage == Gate && gate.step.Round < step.Round
		if passed, _ := v.RunOf(gate.Key); waited && passed.FinishedAt.After(since) {
			since = passed.FinishedAt
		}
	}
	return true, since
}

// newest is the plan of the newest generation, and how much of it is promised.
func (v View[V, P]) newest() (doc P, plan Plan, cursor fanOutCursor) {
	generation := v.Meta().Generation
	doc = v.Plans[generation]
	return doc, planOf(doc), v.cursor[generation]
}

// Missing returns the messages for all steps of the newest generation that were promised
// and have not ended. A retry and the reconciler send them again. None while the upload goes
// on: Uploaded promises all that is open then.
func (v View[V, P]) Missing() []OutboxMessage {
	m := v.Meta()
	if m.State == AwaitingUpload {
		return nil
	}
	if first := v.product.FirstMessage(m); !v.Ended(first) {
		return []OutboxMessage{first}
	}
	doc, plan, r := v.newest()
	missing := v.product.promisedSince(m, doc, noPromises, r)
	if v.passed() { // what follows a gate was not done: its message, delivered again, does it
		return missing[:1]
	}
	missing = slices.DeleteFunc(missing, v.Ended)
	last := v.product.messageFor(m, plan, v.product.Only(Last), 0)
	if len(missing) == 0 && r.Items >= v.product.windowItems(plan) && !v.Ended(last) {
		missing = append(missing, last)
	}
	return missing
}

// Parts returns the messages for all parts of the newest generation, whether they are promised
// or not, by index; none before it is planned, and while gates keep them.
func (v View[V, P]) Parts() []OutboxMessage {
	_, plan, cursor := v.newest()
	if cursor.Held {
		return nil
	}
	return v.product.promisedIn(v.Meta(), plan, Part)
}

// OpenOptional returns the messages for open steps that fail alone: those of the generation
// that serves, and those on request if the view is one with requests.
func (v View[V, P]) OpenOptional() (open []OutboxMessage) {
	m := v.Meta()
	open = slices.DeleteFunc(v.optional(m.Serving), v.Ended)
	for _, r := range v.Runs {
		if r.Key.OnRequest() && r.State != RunDone && r.State != RunFailed {
			open = append(open, v.product.requestMessage(m, r.Key))
		}
	}
	return open
}

// optional returns the messages for all steps of a generation's plan that fail alone.
func (v View[V, P]) optional(generation int) []OutboxMessage {
	m, plan := v.Meta(), planOf(v.Plans[generation])
	all := append(v.product.promisedIn(m, plan, Part), v.product.promisedIn(m, plan, AfterReady)...)
	return slices.DeleteFunc(all, func(o OutboxMessage) bool { return !o.step.IsOptional() })
}

// Ended reports whether nothing more is to be done of what a message asks for: it is committed,
// or it failed alone. False when it has no row.
func (v View[V, P]) Ended(o OutboxMessage) bool {
	run, found := v.RunOf(o.Key)
	return found && run.Ended(o.step)
}

// MarkPlayable sets Playable when something can be used, and returns the subject as it is
// then. It never clears it.
func (s *Store[V, P]) MarkPlayable(ctx context.Context, view View[V, P]) (Record[V], error) {
	if s.Playable == nil || view.Meta().Playable {
		return view.Record, nil
	}
	if playable, err := s.Playable(view); err != nil || !playable {
		return view.Record, err
	}
	return s.Change(ctx, view.Meta().ID, "", func(v *V) ([]OutboxMessage, error) {
		m := metaOf(v)
		if m.Playable || !m.Working() {
			return nil, ErrUnchanged
		}
		m.Playable = true
		return []OutboxMessage{s.FollowMessage()}, nil
	})
}

// passed reports whether all gates that are promised are done, and what waited for them, more
// gates or the parts, is not promised yet.
func (v View[V, P]) passed() bool {
	_, plan, cursor := v.newest()
	open := slices.DeleteFunc(v.product.promisedIn(v.Meta(), plan, Gate), func(o OutboxMessage) bool {
		return o.step.Round > cursor.Round || v.Ended(o)
	})
	return cursor.Held && v.Meta().Working() && len(open) == 0
}

// open promises what waited for gates. Of two callers, the ETag of the row NEXT
// picks one.
func (s *Store[V, P]) open(ctx context.Context, view View[V, P]) error {
	m := view.Meta()
	doc, plan, cursor := view.newest()
	r := s.promisesAfter(m, doc, cursor)
	out := outboxRows(ctx, m.ID, s.promisedSince(m, doc, cursor, r))
	ops := []tablestore.Op{view.unchangedMeta(), r.replace(m.ID, plan.Generation)}
	_, err := s.subjects.Submit(ctx, slices.Concat(ops, inserted(out)))
	if err != nil {
		return err
	}
	return s.sendRows(ctx, m.ID, out)
}

// FanIn promises what is due when every gate has ended, or the last step when every part has,
// and returns whether this call promised the last step. It is called after the end of each.
// Two callers may see at once that all have ended; the insert of the last step's row picks
// one. Safe to repeat.
func (s *Store[V, P]) FanIn(ctx context.Context, view View[V, P]) (bool, error) {
	m := view.Meta()
	if view.passed() {
		if err := s.open(ctx, view); !tablestore.Overtaken(err) {
			return false, err
		}
		return s.fanInAgain(ctx, m.ID)
	}
	missing := view.Missing()
	if !m.State.Active() || len(missing) != 1 || missing[0].step.Stage != Last {
		return false, nil
	}
	last := Run{Key: missing[0].Key, State: RunQueued, QueuedAt: Now()}
	out := outboxRows(ctx, m.ID, missing)
	// snippet: one-insert
	_, err := s.subjects.Submit(ctx, []tablestore.Op{
		view.unchangedMeta(),
		tablestore.Over(last.row(), ""),
		tablestore.Over(out[0], ""),
	})
	switch {
	case err == nil:
		return true, s.sendRows(ctx, m.ID, out)
	case errors.Is(err, tablestore.ErrExists):
		return false, nil // another commit was first, or this is a repetition
	// end snippet
	case !tablestore.Overtaken(err):
		return false, fmt.Errorf("promise %s: %w", last.Key, err)
	}
	return s.fanInAgain(ctx, m.ID)
}

// fanInAgain is FanIn with a view of now, because another writer was faster.
func (s *Store[V, P]) fanInAgain(ctx context.Context, id ID) (bool, error) {
	view, err := s.View(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.FanIn(ctx, view)
}

// unchangedMeta is an operation that changes nothing and is refused when META was
// changed or is gone, so that no row is added to a subject that is being purged.
func (r Record[V]) unchangedMeta() tablestore.Op {
	meta := tablestore.Entity{PartitionKey: string(r.Meta().ID), RowKey: metaKey}
	return tablestore.Op{Kind: tablestore.OpMerge, Entity: meta, IfMatch: r.ETag}
}

// fanOutCursor is the row NEXT:<generation>: how much of a plan has been promised.
type fanOutCursor struct {
	Items int // promised runs of the leading step
	// Partial: the plan was made while its upload went on, which is not complete yet. Only
	// PromiseUntil promises more of it: runs of the leading step, and what may be due with them.
	Partial bool
	// Held: gates have not passed. Nothing but those up to Round is promised.
	Held  bool
	Round int

	etag string
}

// noPromises is before the first promise.
var noPromises = fanOutCursor{Partial: true, Round: -1}

// promisesAfter is the cursor that follows another one whose gates are done: the next round of
// them, else the parts: a window of runs, but none while the upload goes on.
func (s *Product[V, P]) promisesAfter(m Meta, doc P, before fanOutCursor) fanOutCursor {
	next := fanOutCursor{Partial: true, Round: before.Round, etag: before.etag}
	for _, gate := range s.StepsIn(planOf(doc), Gate) {
		if round := gate.Step.Round; round > before.Round && (!next.Held || round < next.Round) {
			next.Held, next.Round = true, round
		}
	}
	if !next.Held && m.State != AwaitingUpload {
		next.Items, next.Partial = min(Window, s.windowItems(planOf(doc))), false
	}
	return next
}

func nextKey(generation int) string { return fmt.Sprintf("NEXT:%05d", generation) }

func (r fanOutCursor) row(id ID, generation int) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(id), RowKey: nextKey(generation), Props: tablestore.Props(r)}
}

func (r fanOutCursor) replace(id ID, generation int) tablestore.Op {
	return tablestore.Op{Kind: tablestore.OpReplace, Entity: r.row(id, generation), IfMatch: r.etag}
}

func readFanOutCursor(row tablestore.Entity) (fanOutCursor, error) {
	r := fanOutCursor{etag: row.ETag}
	err := row.Struct(&r)
	return r, err
}

// cursor reads how much of a plan has been promised: a point read. ErrGone when the
// generation was removed.
func (s *Store[V, P]) cursor(ctx context.Context, id ID, generation int) (fanOutCursor, error) {
	return read(ctx, s.subjects, id, nextKey(generation), ErrGone, readFanOutCursor)
}

// isPromised reports whether a run of a gate or a part is among what a cursor says.
func (s *Product[V, P]) isPromised(r fanOutCursor, doc P, step Step, index int) bool {
	switch {
	case step.Stage == Gate:
		return r.Held && step.Round <= r.Round
	case r.Held:
		return false
	case s.Windowed(step):
		return index < r.Items
	case r.Partial:
		return s.DueWith != nil && s.DueWith(doc, step, index, r.Items)
	}
	return true
}

// PromiseUntil promises the runs before until, of the leading step of a subject that was
// planned while its upload went on: as many as the window takes, which counts all that was
// promised and has not ended. ErrChanged when META changed meanwhile. Safe to repeat.
func (s *Store[V, P]) PromiseUntil(ctx context.Context, rec Record[V], doc P, until int) error {
	m, generation := rec.Meta(), planOf(doc).Generation
	before, err := s.cursor(ctx, m.ID, generation)
	if err != nil || before.Held || !before.Partial || until <= before.Items {
		return err
	}
	view, err := s.View(ctx, m.ID)
	if err != nil {
		return err
	}
	open := len(slices.DeleteFunc(s.promisedSince(m, doc, noPromises, before), view.Ended))
	now := before
	if now.Items = min(until, before.Items+Window-open); now.Items <= before.Items {
		return nil
	}
	messages := s.promisedSince(m, doc, before, now)
	_, err = s.write(ctx, rec, rec.Subject, messages, now.replace(m.ID, generation))
	return err
}

// promiseRest sets the state of a subject that was planned before its upload was complete, and
// promises what is open: all that was promised, a window more, and the parts that need the
// whole file. A step that was promised before is enqueued twice; one of the two messages finds
// it running or done.
func (s *Store[V, P]) promiseRest(ctx context.Context, after *V) ([]OutboxMessage, []tablestore.Op, error) {
	m := metaOf(after)
	view, err := s.View(ctx, m.ID)
	if err != nil {
		return nil, nil, err
	}
	m.State = Processing
	r, all := view.cursor[m.Generation], s.windowItems(planOf(view.Plans[m.Generation]))
	if !r.Held {
		r.Items, r.Partial = min(all, r.Items+Window), false
	}
	view.Subject, view.cursor[m.Generation] = *after, r
	return append(view.Missing(), s.FollowMessage()), []tablestore.Op{r.replace(m.ID, m.Generation)}, nil
}
