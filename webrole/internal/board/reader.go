package board

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// How often storage is asked for each thing. A queue counts as busy until busyFor has
// passed since it held a message, a worker held one of its messages, or this web role
// sent one. When the budget does not allow all that is due, the longest overdue goes
// first.
const (
	passEvery    = 500 * time.Millisecond // also how often lookers are told
	peekEvery    = time.Second            // a busy queue's first messages
	lengthEvery  = 2 * time.Second
	idleEvery    = 10 * time.Second // the length of a lane that nobody uses
	workersEvery = time.Second      // while somebody works
	restEvery    = 3 * time.Second  // workers that rest, and poison
	busyFor      = 8 * time.Second
	scaleEvery   = 2 * time.Second // workers wanted, which asks for nothing more

	askTimeout  = 3 * time.Second
	parallel    = 4
	silentAfter = 8 * time.Second // a heartbeat comes every 3 s at least
	forgetAfter = 10 * time.Minute

	maxMessages = workqueue.MaxBatch
	maxPoison   = 50
	maxTitles   = 1000
	titleFor    = 5 * time.Minute
)

// reader reads storage for all lookers. It begins with the first and ends with the last.
// Its own goroutine writes its fields, and so do the asks, for which it waits. It holds
// board.mu while it writes those that lookers read.
type reader struct {
	board  *Board
	number int
	began  time.Time
	ctx    context.Context
	cancel context.CancelFunc

	ready chan struct{} // closed when the first look is done, or failed
	err   error         // why it failed

	// Guarded by board.mu.
	shown   state
	whole   Event // of shown; without data when it is not made yet
	version int64
	wake    []string // queues that were sent to

	lines       []*line
	workersAt   time.Time // when they were asked for; zero before
	poisonAt    time.Time
	scaledAt    time.Time
	seen        []workers.Worker
	poison      []api.Poison
	next        state
	trouble     string
	sample      sample
	counts      map[string]counted // by worker
	missedTitle []video.ID
}

// line is one storage queue.
type line struct {
	queue            *workqueue.Queue
	lengthAt, peekAt time.Time // when it was asked
	busyUntil        time.Time
	length           int64
	read             bool
	messages         []api.BoardMessage
}

type title struct {
	text string
	at   time.Time
}

func newReader(b *Board, number int) *reader {
	ctx, cancel := context.WithCancel(azstorage.WithoutRetry(context.Background()))
	r := &reader{board: b, number: number, began: time.Now(), ctx: ctx, cancel: cancel, ready: make(chan struct{}), counts: map[string]counted{}}
	for _, spec := range b.parts.Queues.Specs() {
		r.lines = append(r.lines, &line{queue: b.parts.Queues.Queue(spec.Name), messages: []api.BoardMessage{}})
	}
	r.sample = newSample(time.Now(), b.meter.total())
	return r
}

// wait returns when the first look is done.
func (r *reader) wait(ctx context.Context) error {
	select {
	case <-r.ready:
		return r.err
	case <-r.ctx.Done():
		select {
		case <-r.ready: // it failed, and then it was cancelled
			return r.err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run reads until the reader is cancelled. The first look is either whole or an error
// for all who wait for it.
func (r *reader) run() {
	if r.err = r.first(); r.err != nil {
		r.board.abandon(r)
		close(r.ready)
		r.cancel()
		return
	}
	r.publish(time.Now())
	close(r.ready)
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		err := r.pass()
		if r.ctx.Err() != nil {
			return
		}
		r.note(err)
		r.publish(time.Now())
	}
}

// abandon lets the next looker start anew after a first look that failed.
func (b *Board) abandon(r *reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == r {
		b.reader = nil
	}
}

// first asks for everything, and then once more: the second pass reads the messages of
// the queues that the first one found busy.
func (r *reader) first() error {
	for round := 0; ; {
		if err := r.pass(); err != nil {
			return err
		}
		whole := !r.workersAt.IsZero() && !r.poisonAt.IsZero() && !slices.ContainsFunc(r.lines, func(l *line) bool { return !l.read })
		if whole {
			if round++; round > 1 {
				return nil
			}
			continue
		}
		select {
		case <-r.ctx.Done():
			return ErrClosed
		case <-time.After(passEvery):
		}
	}
}

// note keeps whether storage answers.
func (r *reader) note(err error) {
	if err == nil {
		r.trouble = ""
		return
	}
	if r.trouble == "" {
		slog.Warn("the board cannot read", "error", err)
	}
	r.trouble = "Storage does not answer: what is shown may be old."
}

// ask is one request: do makes it, and returns how its answer is kept.
type ask struct {
	due time.Time
	do  func(context.Context) (keep func(), err error)
}

// pass makes the requests that are due, within the budget. After a failure it makes no
// more of them, because each one would wait for a service that does not answer.
func (r *reader) pass() error {
	now := time.Now()
	r.rouse(now)
	due := r.due(now)
	slices.SortStableFunc(due, func(a, b ask) int { return a.due.Compare(b.due) })
	keep := make([]func(), len(due))
	errs := make([]error, len(due))
	group, live := errgroup.WithContext(r.ctx)
	group.SetLimit(parallel)
	for i, a := range due {
		if live.Err() != nil || !r.board.meter.take() {
			break
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(r.ctx, askTimeout)
			defer cancel()
			keep[i], errs[i] = a.do(ctx)
			return errs[i]
		})
	}
	err := group.Wait()
	for _, k := range keep {
		if k != nil {
			k()
		}
	}
	return err
}

// sent notes that this role sent to a queue. The caller holds board.mu.
func (r *reader) sent(queue string) { r.wake = append(r.wake, queue) }

// rouse makes the queues busy that were sent to.
func (r *reader) rouse(now time.Time) {
	r.board.mu.Lock()
	names := r.wake
	r.wake = nil
	r.board.mu.Unlock()
	for _, l := range r.lines {
		if slices.Contains(names, l.queue.Name()) {
			l.busyUntil, l.peekAt = now.Add(busyFor), time.Time{}
		}
	}
}

// due lists what is to be asked.
func (r *reader) due(now time.Time) (due []ask) {
	add := func(last time.Time, every time.Duration, do func(context.Context) (func(), error)) {
		if at := last.Add(every); !now.Before(at) {
			due = append(due, ask{at, do})
		}
	}
	lively := map[int]bool{0: true} // lanes that somebody uses, in whatever queue
	for _, l := range r.lines {
		if now.Before(l.busyUntil) {
			lively[l.queue.Spec().Lane()] = true
		}
	}
	working := false
	for _, l := range r.lines {
		every := idleEvery
		if lively[l.queue.Spec().Lane()] {
			every = lengthEvery
		}
		add(l.lengthAt, every, r.askLength(l))
		if l.read && now.Before(l.busyUntil) {
			working = true
			add(l.peekAt, peekEvery, r.askMessages(l))
		}
	}
	every := restEvery
	if working {
		every = workersEvery
	}
	add(r.workersAt, every, r.askWorkers)
	add(r.poisonAt, restEvery, r.askPoison)
	for _, id := range r.missedTitle {
		add(now, 0, r.askTitle(id))
	}
	return due
}

// The asks set when they were made before they are, so that a failure is not
// repeated at once.

func (r *reader) askLength(l *line) func(context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		l.lengthAt = time.Now()
		state, err := l.queue.Length(ctx)
		if err != nil && !workqueue.IsMissing(err) {
			return nil, err
		}
		return func() {
			l.read, l.length = true, state.Length
			if state.Length > 0 || len(l.messages) > 0 {
				l.busyUntil = time.Now().Add(busyFor)
			}
			if state.Length == 0 { // never too low
				l.messages = []api.BoardMessage{}
			}
		}, nil
	}
}

func (r *reader) askMessages(l *line) func(context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		l.peekAt = time.Now()
		seen, err := l.queue.Peek(ctx, maxMessages)
		if err != nil && !workqueue.IsMissing(err) {
			return nil, err
		}
		messages := make([]api.BoardMessage, len(seen))
		for i, p := range seen {
			messages[i] = messageOf(p)
		}
		return func() {
			l.messages = messages
			l.length = max(l.length, int64(len(messages)))
			if len(messages) > 0 {
				l.busyUntil = time.Now().Add(busyFor)
			}
		}, nil
	}
}

func (r *reader) askWorkers(ctx context.Context) (func(), error) {
	r.workersAt = time.Now()
	found, err := r.board.parts.Workers.List(ctx, time.Now().Add(-forgetAfter))
	if err != nil {
		return nil, err
	}
	return func() {
		r.count(found)
		r.seen = found
		for _, w := range found {
			for _, task := range w.Busy {
				r.busy(task)
			}
		}
	}, nil
}

// busy makes the queue of a task busy until the message must have come back.
func (r *reader) busy(task workers.Task) {
	i := slices.IndexFunc(r.lines, func(l *line) bool { return l.queue.Name() == task.Queue })
	if i >= 0 && time.Now().Before(task.Deadline.Add(busyFor)) {
		r.lines[i].busyUntil = time.Now().Add(busyFor)
	}
}

func (r *reader) askPoison(ctx context.Context) (func(), error) {
	r.poisonAt = time.Now()
	found, _, err := r.board.parts.Queues.ListPoison(ctx, maxPoison, "")
	if err != nil {
		return nil, err
	}
	items := make([]api.Poison, len(found))
	for i, p := range found {
		items[i] = PoisonOf(p)
	}
	slices.SortStableFunc(items, func(a, b api.Poison) int {
		return cmp.Or(b.PoisonedAt.Compare(a.PoisonedAt), cmp.Compare(a.Id, b.Id))
	})
	return func() { r.poison = items }, nil
}

func (r *reader) askTitle(id video.ID) func(context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		text, err := r.board.parts.Title(ctx, id)
		if err != nil {
			return nil, err
		}
		return func() { r.board.titles.Add(string(id), title{text, time.Now()}) }, nil
	}
}

// publish shows the new state, and tells all lookers what changed.
func (r *reader) publish(now time.Time) {
	r.next = r.observe(now)
	change, changed := r.next.since(r.shown)
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	first := r.version == 0
	r.shown = r.next
	if !changed && !first {
		return
	}
	r.version++
	r.whole = Event{}
	if first {
		return // each look begins with a snapshot
	}
	data, err := json.Marshal(change)
	if err != nil { // cannot be: a snapshot would say so
		slog.Error("the board cannot be told", "error", fmt.Errorf("encode a change of the board: %w", err))
		return
	}
	r.board.tell(Event{Kind: Change, ID: r.eventID(), Data: data})
}
