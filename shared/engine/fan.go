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
		waits := m.State == AwaitingUpload && o.Declared.Stage == Gate && !o.Declared.Early
		return waits || s.isPromised(before, doc, o.Declared, o.Index) || !s.isPromised(now, doc, o.Declared, o.Index)
	})
}

// messageFor asks for one step of a plan.
func (d Declaration) messageFor(m Meta, plan Plan, step Step, index int) OutboxMessage {
	key := Key{ID: m.ID, Generation: plan.Generation, Step: step.Name, Index: index}
	return OutboxMessage{Queue: d.QueueOf(step, m, plan, index), Key: key, Version: m.ItemVersion, Declared: step}
}

// FirstMessage asks for the step that plans a generation.
func (d Declaration) FirstMessage(m Meta) OutboxMessage {
	return d.messageFor(m, Plan{Generation: m.Generation}, d.Only(First), 0)
}

// Asked has the runs of the newest generation that were asked for, but for the last one, with
// since when: zero when only the message knows that, or the run's row.
func (v View[V, P]) Asked() map[Key]time.Time {
	m := v.Meta()
	doc, plan, cursor := v.newest()
	asked := map[Key]time.Time{}
	first := v.product.FirstMessage(m).Key
	if m.State.Active() && !m.UploadedAt.IsZero() {
		asked[first] = time.Time{}
		if m.Generation == 1 {
			asked[first] = m.UploadedAt
		}
	}
	planned, _ := v.RunOf(first)
	since := planned.FinishedAt
	for _, gate := range v.product.promisedIn(m, plan, Gate) {
		if passed, _ := v.RunOf(gate.Key); passed.FinishedAt.After(since) {
			since = passed.FinishedAt
		}
	}
	for _, o := range v.product.promisedSince(m, doc, noPromises, cursor) {
		asked[o.Key] = since
		if v.product.Windowed(o.Declared) && o.Index >= Window {
			asked[o.Key] = time.Time{}
		}
	}
	if m.Serving == m.Generation {
		for _, o := range v.product.promisedIn(m, plan, AfterReady) {
			asked[o.Key] = m.ReadyAt
		}
	}
	return asked
}

// newest is the plan of the newest generation, and how much of it is promised.
func (v View[V, P]) newest() (doc P, plan Plan, cursor fanOutCursor) {
	generation := v.Meta().Generation
	doc = v.Plans[generation]
	return doc, planOf(doc), v.cursor[generation]
}

// Missing returns the messages for all steps of the newest generation that were promised
// and have not ended. A retry and the reconciler send them again. None unless its state is
// active: while the upload goes on nothing is sought, for Uploaded promises all that is open.
func (v View[V, P]) Missing() []OutboxMessage {
	m := v.Meta()
	if !m.State.Active() {
		return nil
	}
	first := v.product.FirstMessage(m)
	if _, due := v.due(); due || !v.Ended(first) { // what is due was not promised: the first step, delivered again, does it
		return []OutboxMessage{first}
	}
	_, plan, r := v.newest()
	missing := v.open(r)
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
	return slices.DeleteFunc(all, func(o OutboxMessage) bool { return !o.Declared.IsOptional() })
}

// Ended reports whether nothing more is to be done of what a message asks for: it is committed,
// or it failed alone. False when it has no row.
func (v View[V, P]) Ended(o OutboxMessage) bool {
	run, found := v.RunOf(o.Key)
	return found && run.Ended(o.Declared)
}

// FanIn promises what is due: what waited for gates or for the rest of the upload, or, when
// every part has ended, the last step. Of several callers at once one writes: row NEXT has an
// ETag, and the row of the last step is inserted. What can be used by then makes the subject
// playable. Safe to repeat.
func (s *Store[V, P]) FanIn(ctx context.Context, id ID) error {
	for {
		view, err := s.View(ctx, id)
		if err == nil {
			view.Record, err = s.markPlayable(ctx, view)
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var row tablestore.Op
		next, due := view.due()
		missing := view.Missing()
		switch {
		case due:
			row, missing = next.op(id, view.Meta().Generation), view.open(next)
			// snippet: one-insert
		case len(missing) == 1 && missing[0].Declared.Stage == Last:
			row = tablestore.Over(Run{Key: missing[0].Key, State: RunQueued, QueuedAt: Now()}.row(), "")
		default:
			return nil
		}
		err = s.promise(ctx, view.Record, row, missing)
		if errors.Is(err, tablestore.ErrExists) {
			return nil // another commit was first, or this is a repetition
		}
		// end snippet
		nothing := err == nil && len(missing) == 0 // all of it had ended before it was due: look what follows
		if !nothing && !tablestore.Overtaken(err) {
			return err
		}
	}
}

// markPlayable sets Playable when something can be used, and returns the subject as it is
// then. It never clears it.
func (s *Store[V, P]) markPlayable(ctx context.Context, view View[V, P]) (Record[V], error) {
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

// due is the cursor that follows the newest one, if what that waits for is there: all gates
// that are promised have ended, or the upload is complete.
func (v View[V, P]) due() (next fanOutCursor, due bool) {
	m := v.Meta()
	doc, plan, now := v.newest()
	gates := slices.DeleteFunc(v.product.promisedIn(m, plan, Gate), func(o OutboxMessage) bool {
		return o.Declared.Round > now.Round || v.Ended(o)
	})
	next = v.product.promisesAfter(m, doc, now, len(gates) == 0)
	return next, next != now && m.Working() && now.etag != ""
}

// open returns the messages that a cursor of the newest generation promises, without those
// whose runs have ended.
func (v View[V, P]) open(r fanOutCursor) []OutboxMessage {
	doc, _, _ := v.newest()
	return slices.DeleteFunc(v.product.promisedSince(v.Meta(), doc, noPromises, r), v.Ended)
}

// fanOutCursor is the row NEXT:<generation>: how much of a plan has been promised.
type fanOutCursor struct {
	Items int // promised runs of the leading step
	// Partial: the upload was going on. Only PromiseUntil promises more of the plan: runs of
	// the leading step, and what may be due with them.
	Partial bool
	// Held: gates have not passed. Nothing but those up to Round is promised.
	Held  bool
	Round int

	etag string
}

// noPromises is before the first promise.
var noPromises = fanOutCursor{Held: true, Round: -1}

// promisesAfter is the cursor that follows another one: if its gates have passed, the next
// round of them, else the parts; and a window of runs when neither gates nor the upload
// are waited for any more.
func (s *Product[V, P]) promisesAfter(m Meta, doc P, before fanOutCursor, passed bool) fanOutCursor {
	next := before
	next.Partial = m.State == AwaitingUpload
	if before.Held && passed {
		next.Held = false
		for _, gate := range s.StepsIn(planOf(doc), Gate) {
			if round := gate.Step.Round; round > before.Round && (!next.Held || round < next.Round) {
				next.Held, next.Round = true, round
			}
		}
	}
	if (before.Held || before.Partial) && !next.Held && !next.Partial {
		next.Items = min(before.Items+Window, s.windowItems(planOf(doc)))
	}
	return next
}

func nextKey(generation int) string { return fmt.Sprintf("NEXT:%05d", generation) }

// op writes the row over the one that was read; there is none before the first promise.
func (r fanOutCursor) op(id ID, generation int) tablestore.Op {
	return tablestore.Over(tablestore.Entity{PartitionKey: string(id), RowKey: nextKey(generation), Props: tablestore.Props(r)}, r.etag)
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
	now := before
	if now.Items = min(until, before.Items+Window-len(view.open(before))); now.Items <= before.Items {
		return nil
	}
	messages := s.promisedSince(m, doc, before, now)
	_, err = s.write(ctx, rec, rec.Subject, messages, now.op(m.ID, generation))
	return err
}
