package board

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// How often storage is asked for each thing. A queue counts as busy until busyFor has
// passed since it held a message, or a worker held one of its messages. When the budget
// does not allow all that is due, the longest overdue goes first.
const (
	passEvery    = 500 * time.Millisecond // also how often watchers are told
	peekEvery    = time.Second            // a busy queue's first messages
	lengthEvery  = 2 * time.Second
	idleEvery    = 10 * time.Second // the length of a lane that is not in use
	workersEvery = time.Second      // while there is work
	restEvery    = 3 * time.Second  // workers that rest, and poison
	busyFor      = 8 * time.Second

	askTimeout  = 3 * time.Second
	parallel    = 4
	silentAfter = 5 * time.Second // a heartbeat is late
	forgetAfter = 10 * time.Minute

	maxMessages = azq.MaxBatch
	maxPoison   = 50
	maxTitles   = 1000
	titleLife   = 5 * time.Minute
)

// reader is what was read of storage, for all watchers.
type reader struct {
	board *Board
	shown *State // nil before the first

	// Written by the requests of a pass, for which the reader waits, one at a time.
	mu         sync.Mutex
	queueViews []*queueView
	seen       []workers.Worker
	poison     []api.Poison

	workersAt, poisonAt time.Time // when they were asked for; zero before
	missedTitles        []engine.ID
	unanswered          map[*time.Time]error // of asks that failed when last made, by ask.last

	samples   []api.BoardSample // of the plots
	sampledAt time.Time
	sampled   int64            // requests of the board until then
	counted   []workers.Worker // as they were then
}

type queueView struct {
	queue            *azq.Queue
	lengthAt, peekAt time.Time // when it was asked
	busyUntil        time.Time
	length           int64
	messages         []api.BoardMessage
}

func (l *queueView) busy() { l.busyUntil = time.Now().Add(busyFor) }

func newReader(b *Board) *reader {
	r := &reader{board: b, poison: []api.Poison{}, samples: []api.BoardSample{}, unanswered: map[*time.Time]error{}}
	for _, spec := range b.parts.Queues.Specs() {
		r.queueViews = append(r.queueViews, &queueView{queue: b.parts.Queues.Queue(spec.Name), messages: []api.BoardMessage{}})
	}
	return r
}

// read brings the state up to date. The first is either complete or an error; in a later one
// what cannot be read stays as it was.
func (r *reader) read() error {
	err := r.pass()
	if r.shown == nil && err == nil {
		err = r.pass() // what is in the queues that hold messages
	}
	if err != nil {
		if r.shown == nil {
			return err
		}
		if r.shown.stale == nil {
			slog.Warn("the board cannot read", "error", err)
		}
	}
	return r.show(time.Now())
}

type ask struct {
	last  *time.Time // when it was made; zero before
	every time.Duration
	do    func(context.Context) error
}

func (a ask) due() time.Time { return a.last.Add(a.every) }

// pass makes the requests that are due, within the budget, for which the first state waits.
// After a failure it makes no more of them, because each one would wait for a service that does
// not answer.
func (r *reader) pass() error {
	now := time.Now()
	asks := r.asks(now)
	maps.DeleteFunc(r.unanswered, func(last *time.Time, _ error) bool { // a queue that is not busy any more
		return !slices.ContainsFunc(asks, func(a ask) bool { return a.last == last })
	})
	due := slices.DeleteFunc(asks, func(a ask) bool { return now.Before(a.due()) })
	slices.SortStableFunc(due, func(a, b ask) int { return a.due().Compare(b.due()) })
	group, live := errgroup.WithContext(r.board.ctx)
	group.SetLimit(parallel)
	for _, a := range due {
		if r.shown == nil {
			_ = r.board.budget.Wait(live) // fails when live ends
		}
		if live.Err() != nil || r.shown != nil && !r.board.budget.Allow() {
			break
		}
		r.board.requests.Add(1)
		*a.last = time.Now() // before the answer, so that a failure is not repeated at once
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(r.board.ctx, askTimeout)
			defer cancel()
			return r.note(a, a.do(ctx))
		})
	}
	return group.Wait()
}

// note keeps whether an ask was answered. That of a title does not count: it decides nothing.
func (r *reader) note(a ask, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unanswered, a.last)
	if err != nil && a.every > 0 {
		r.unanswered[a.last] = err
	}
	return err
}

func (r *reader) asks(now time.Time) []ask {
	used := map[int]bool{0: true} // lanes in which any queue is busy
	for _, l := range r.queueViews {
		if now.Before(l.busyUntil) {
			used[l.queue.Spec().Lane()] = true
		}
	}
	workersPause := restEvery
	var all []ask
	for _, l := range r.queueViews {
		every := idleEvery
		if used[l.queue.Spec().Lane()] {
			every = lengthEvery
		}
		all = append(all, ask{&l.lengthAt, every, func(ctx context.Context) error { return r.askLength(ctx, l) }})
		if !l.lengthAt.IsZero() && now.Before(l.busyUntil) {
			workersPause = workersEvery
			all = append(all, ask{&l.peekAt, peekEvery, func(ctx context.Context) error { return r.askMessages(ctx, l) }})
		}
	}
	all = append(all, ask{&r.workersAt, workersPause, r.askWorkers}, ask{&r.poisonAt, restEvery, r.askPoison})
	for _, id := range r.missedTitles {
		all = append(all, ask{&now, 0, func(ctx context.Context) error { return r.askTitle(ctx, id) }})
	}
	return all
}

func (r *reader) askLength(ctx context.Context, l *queueView) error {
	state, err := l.queue.Length(ctx)
	if err != nil && !azq.IsMissing(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.length = state.Length
	if state.Length > 0 || len(l.messages) > 0 {
		l.busy()
	}
	if state.Length == 0 { // never too low
		l.messages = []api.BoardMessage{}
	}
	return nil
}

func (r *reader) askMessages(ctx context.Context, l *queueView) error {
	seen, err := l.queue.Peek(ctx, maxMessages)
	if err != nil && !azq.IsMissing(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.messages = api.Each(seen, messageOf)
	l.length = max(l.length, int64(len(l.messages)))
	if len(l.messages) > 0 {
		l.busy()
	}
	return nil
}

func (r *reader) askWorkers(ctx context.Context) error {
	found, err := r.board.parts.Workers.List(ctx, time.Now().Add(-forgetAfter))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = found
	for _, w := range found {
		for _, task := range w.Busy { // its queue is busy until the message must have come back
			i := slices.IndexFunc(r.queueViews, func(l *queueView) bool { return l.queue.Name() == task.Queue })
			if i >= 0 && time.Now().Before(task.Deadline.Add(busyFor)) {
				r.queueViews[i].busy()
			}
		}
	}
	return nil
}

func (r *reader) askPoison(ctx context.Context) error {
	found, _, err := r.board.parts.Queues.ListPoison(ctx, maxPoison, "")
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b api.Poison) int {
		return cmp.Or(b.PoisonedAt.Compare(a.PoisonedAt), cmp.Compare(a.ID, b.ID))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poison = append([]api.Poison{}, found...)
	return nil
}

func (r *reader) askTitle(ctx context.Context, id engine.ID) error {
	rec, err := r.board.parts.Videos.Get(ctx, id)
	if err == nil || errors.Is(err, engine.ErrNotFound) || errors.Is(err, tablestore.ErrUnreadable) {
		r.board.titles.Set(id, rec.Subject.Title, ttlcache.DefaultTTL) // empty when it is gone
		return nil
	}
	return err
}
