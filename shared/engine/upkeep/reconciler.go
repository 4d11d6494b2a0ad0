package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// Reconciler sends messages that are missing (paper rows Q3 and Q7). A process may die
// between writing a promise and sending it, and a message may be lost or cleared. The
// reconciler finds such subjects by their marks and sends again.
//
// Between passes it keeps in memory which subjects were healthy; a new leader starts over.
// Not safe for concurrent use.
type Reconciler[V, P any] struct {
	Store *engine.Store[V, P]
	Queue func(ctx context.Context, name string) (QueueState, error)
	// Workers lists the living workers with the steps they run.
	Workers func(ctx context.Context) ([]workers.Worker, error)
	// Grace: a promise that is younger is not checked.
	Grace time.Duration
	// OrphanAfter: while its queue has messages, a step that was silent for less is not lost.
	OrphanAfter time.Duration
	// CreateTimeout is longer than a request takes: an older announcement has its subject or never will.
	CreateTimeout time.Duration
	// AbandonAfter is how long an upload may take before its subject is deleted.
	AbandonAfter time.Duration
	// SweepAfter is how long after a purge the mark is kept: late workers may insert rows.
	SweepAfter time.Duration
	// Passed, if set, is told at the end of each pass how many subjects had a promise that should
	// have been sent by then, and how many lost messages were sent again.
	Passed func(unsent, resent int)
	Log    *slog.Logger

	looks map[engine.ID]nextCheck // subjects that were found healthy in the latest pass, or before
}

// nextCheck says when a healthy subject is to be checked again, unless its mark changes.
type nextCheck struct {
	etag string
	due  time.Time
}

// Pass checks the marked subjects that are due.
func (r *Reconciler[V, P]) Pass(ctx context.Context) (items int, _ error) {
	now := &pass[V, P]{r: r}
	if r.Passed != nil {
		defer func() { r.Passed(now.unsent, now.resent) }()
	}
	looks := map[engine.ID]nextCheck{}
	var failed []error
	for mark, err := range r.Store.Inflight(ctx) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return items, errors.Join(firstErrors(failed), err)
		}
		if l, seen := r.looks[mark.ID]; seen && l.etag == mark.ETag && (r.awaits(mark) || time.Now().Before(l.due)) {
			looks[mark.ID] = l
			continue
		}
		if !r.due(mark) {
			continue
		}
		items++
		healthy, err := r.check(ctx, mark, now)
		if errors.Is(err, tablestore.ErrUnreadable) {
			r.Log.Error("leave a subject that cannot be read", "subject", mark.ID, "error", err)
			healthy, err = true, nil // checking it in every pass would not help
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("reconcile %s: %w", mark.ID, err))
		}
		if healthy {
			looks[mark.ID] = nextCheck{etag: mark.ETag, due: time.Now().Add(r.pause(mark))}
		}
	}
	r.looks = looks
	return items, firstErrors(failed)
}

// awaits reports whether nothing is promised, because the upload is waited for.
func (r *Reconciler[V, P]) awaits(mark engine.Inflight) bool {
	return mark.Awaits && time.Since(mark.Since) < r.AbandonAfter
}

// due reports whether a mark is old enough for its subject to be checked. The mark alone
// decides, so it costs no request.
func (r *Reconciler[V, P]) due(mark engine.Inflight) bool {
	age := time.Since(mark.Since)
	unborn := r.awaits(mark) && age < r.CreateTimeout // nothing to check but what a request may have reserved
	return age >= r.Grace && !unborn
}

// pause is how long a healthy subject is not checked. Most messages are lost when they are
// promised, so young marks are checked in every pass and old ones seldom. A subject that was
// purged is checked twice: soon, and when no worker can be late.
func (r *Reconciler[V, P]) pause(mark engine.Inflight) time.Duration {
	age := time.Since(mark.Since)
	switch {
	case mark.Erased:
		return r.SweepAfter - age
	case age < time.Minute:
		return 0
	}
	return min(age/4, 5*time.Minute)
}

// check checks one subject and reports whether there was nothing to do.
func (r *Reconciler[V, P]) check(ctx context.Context, mark engine.Inflight, now *pass[V, P]) (healthy bool, _ error) {
	view, err := r.Store.ViewWithRequests(ctx, mark.ID, false)
	if errors.Is(err, engine.ErrNotFound) {
		return r.sweep(ctx, mark)
	}
	if err != nil {
		return false, err
	}
	if view.Unsent {
		now.unsent++
		r.Log.Info("send what the outbox promised", "subject", mark.ID)
		return false, r.Store.Flush(ctx, mark.ID)
	}
	meta, missing := view.Meta(), view.OpenOptional()
	// A cancelled upload keeps its mark, too: parts and what was made early must go some day.
	partial := meta.State == engine.AwaitingUpload || meta.State == engine.Cancelled && meta.Upload != nil && meta.UploadedAt.IsZero()
	if partial && time.Since(mark.Since) >= r.AbandonAfter {
		r.Log.Info("remove abandoned upload", "subject", mark.ID)
		_, err := r.Store.Delete(ctx, mark.ID, view.ETag)
		return false, err
	}
	switch {
	case meta.State.Terminal():
		indexed := mark.Indexed.Equal(meta.UpdatedAt)
		if !indexed && !mark.GaveUp(r.Store.Only(engine.OnChange).Name, meta) {
			missing = append(missing, r.Store.FollowMessage())
		}
		if indexed && len(missing) == 0 && !partial {
			return false, r.Store.ClearInflight(ctx, mark)
		}
	case meta.State == engine.Deleting:
		missing = nil
		if !mark.GaveUp(r.Store.Only(engine.OnDelete).Name, meta) {
			missing = append(missing, r.Store.RemoveMessage())
		}
	case meta.State != engine.AwaitingUpload:
		missing = append(view.Missing(), missing...)
	}
	resent, err := r.resend(ctx, mark, view, missing, now)
	now.resent += resent
	return err == nil && resent == 0, err
}

// sweep removes the mark of a subject that is gone. A worker that claimed a step in the
// moment of the purge may have left a row, and one that counted, or a request that died
// before it announced its subject, a reservation.
func (r *Reconciler[V, P]) sweep(ctx context.Context, mark engine.Inflight) (healthy bool, _ error) {
	if err := r.Store.Quotas.CountOwned(ctx, mark.ID); err != nil {
		return false, err
	}
	if time.Since(mark.Since) < r.SweepAfter {
		return true, nil
	}
	if _, err := r.Store.Erase(ctx, mark.ID, false); err != nil {
		return false, err
	}
	return false, r.Store.ClearInflight(ctx, mark)
}

// resend promises again those intents whose messages are lost, and counts them.
func (r *Reconciler[V, P]) resend(ctx context.Context, mark engine.Inflight, view engine.View[V, P], intents []engine.OutboxMessage, now *pass[V, P]) (int, error) {
	var lost []engine.OutboxMessage
	for _, intent := range intents {
		is, err := r.isLost(ctx, mark, view, intent, now)
		if err != nil {
			return 0, err
		}
		if is {
			lost = append(lost, intent)
		}
	}
	if len(lost) == 0 {
		return 0, nil
	}
	r.Log.Warn("send lost messages again", "subject", view.Meta().ID, "count", len(lost), "first", lost[0].Step)
	if err := r.Store.Reopen(ctx, view, lost); err != nil {
		return 0, err
	}
	return len(lost), r.Store.Resend(ctx, view.Record, lost)
}

// lostFactor: after this many times OrphanAfter without a sign of life a step is sent
// again whatever its queue holds. A second message does no harm.
const lostFactor = 8

// isLost reports whether the message of an intent is gone from its queue. A step that a
// living worker runs is never lost. If the queue is empty the message is gone: the length
// includes hidden messages and is never too low. Otherwise the messages at the front are
// compared with the step. A queue is roughly first in, first out, so if one of them is
// much newer than the step's last activity, and ours is not among them, ours is gone. The
// newest of them is compared, because an item that is snoozed stays at the front for long.
func (r *Reconciler[V, P]) isLost(ctx context.Context, mark engine.Inflight, view engine.View[V, P], intent engine.OutboxMessage, now *pass[V, P]) (bool, error) {
	silent := time.Since(lastSign(mark, view, intent))
	if silent <= r.Grace {
		return false, nil
	}
	q, err := now.queue(ctx, intent.Queue)
	if err != nil {
		return false, err
	}
	front := time.Time{}
	for _, p := range q.Front {
		if intent.Is(view.Meta().ID, p.Item) {
			return false, nil
		}
		if p.Inserted.After(front) {
			front = p.Inserted
		}
	}
	passedBy := time.Since(front) < silent-time.Minute
	if !q.Empty && (silent <= r.OrphanAfter || !passedBy && silent <= lostFactor*r.OrphanAfter) {
		return false, nil
	}
	busy, err := now.busy(ctx, view, intent)
	return !busy, err
}

// lastSign is when a step was last written or promised. For one that was never claimed, which
// has no row, META, the subject's other steps and the mark, renewed with every promise, count.
func lastSign[V, P any](mark engine.Inflight, view engine.View[V, P], intent engine.OutboxMessage) time.Time {
	if s, found := view.RunOf(intent.Key); found {
		return latest(s.QueuedAt, s.StartedAt, s.FinishedAt, s.WrittenAt)
	}
	last := latest(view.Meta().UpdatedAt, mark.Since)
	for _, s := range view.Runs {
		last = latest(last, s.QueuedAt, s.StartedAt, s.FinishedAt, s.WrittenAt)
	}
	return last
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// pass is what a pass counts, and what it knows of queues and workers, each read at most
// once in freshFor.
type pass[V, P any] struct {
	r       *Reconciler[V, P]
	unsent  int
	resent  int
	since   time.Time
	queues  map[string]QueueState
	workers []workers.Worker // nil: not read yet
}

// freshFor bounds how old the knowledge is by which a message counts as lost.
const freshFor = 10 * time.Second

func (m *pass[V, P]) refresh() {
	if time.Since(m.since) >= freshFor {
		m.since, m.queues, m.workers = time.Now(), map[string]QueueState{}, nil
	}
}

func (m *pass[V, P]) queue(ctx context.Context, name string) (QueueState, error) {
	m.refresh()
	q, known := m.queues[name]
	if known {
		return q, nil
	}
	q, err := m.r.Queue(ctx, name)
	if err != nil {
		return QueueState{}, err
	}
	m.queues[name] = q
	return q, nil
}

// busy reports whether the worker that claimed a step is alive and says that it runs it.
// The worker writes its row of the register also while a step writes nothing, so a part
// that takes an hour is not sent again.
func (m *pass[V, P]) busy(ctx context.Context, view engine.View[V, P], intent engine.OutboxMessage) (bool, error) {
	step, found := view.RunOf(intent.Key)
	if !found || step.State != engine.RunRunning || m.r.Workers == nil {
		return false, nil
	}
	if m.refresh(); m.workers == nil {
		var err error
		if m.workers, err = m.r.Workers(ctx); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(m.workers, func(w workers.Worker) bool {
		return w.Name == step.Worker && slices.ContainsFunc(w.Busy, func(t azq.Running) bool {
			return t.Item == step.Key.ItemID()
		})
	}), nil
}

// QueueState is what the reconciler knows of a queue.
type QueueState struct {
	// Empty: no message at all, neither visible nor hidden by a lease.
	Empty bool
	// Front are the visible messages that come next, at most 32.
	Front []azq.Peeked
}

// StateIn reads the state of a queue of queues: one request, and a second when it has messages.
func StateIn(queues *azq.Client) func(ctx context.Context, name string) (QueueState, error) {
	return func(ctx context.Context, name string) (QueueState, error) {
		q := queues.Queue(name)
		state, err := q.Length(ctx)
		if err != nil || state.Length == 0 {
			return QueueState{Empty: err == nil}, err
		}
		front, err := q.Peek(ctx, azq.MaxBatch)
		return QueueState{Front: front}, err
	}
}
