package azq

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/cutroom/cutroom/shared/azstore"
)

// pool is a number of slots that several queues share: a semaphore that decides which
// queue gets the next slot. A slot is held from before a message is asked for until the
// message's handler has returned, or after a failure until the message is put back.
//
// It is fair queueing in virtual time. Each queue, and so each lane of a queue, pays for a
// slot the seconds for which it is held, divided by the queue's weight. Next is the queue
// that will have paid least. docs/scheduling.md has an example.
type pool struct {
	name string
	size int

	mu      sync.Mutex
	busy    int            // slots held
	urgent  int            // of them by urgent queues
	clock   float64        // virtual time: the least that a waiting queue had paid at a grant
	waiting []*slotRequest // in order of arrival

	// deleting bounds the messages that are being deleted without a slot: see occupy.
	deleting *semaphore.Weighted
}

func newPool(name string, size int) *pool {
	return &pool{name: name, size: size, deleting: semaphore.NewWeighted(int64(size))}
}

// queueState is what a pool knows of one queue. Guarded by pool.mu.
type queueState struct {
	weight  float64
	typical float64 // seconds for which an item holds its slot
	urgent  bool
	paid    float64 // seconds of slots divided by weight
}

// slotRequest is one queue's request for slots, and then the slots that it got.
type slotRequest struct {
	queue   *queueState
	want    int
	got     int
	since   time.Time
	granted chan struct{} // closed when got is at least 1
}

// moment is how long a request for several slots waits for more after the first. Short work
// that was received together ends together, and one receive then fetches for all its slots.
const moment = time.Millisecond

// take waits for at least one slot. The result has at most want of them. Each is to be
// returned, by back or occupy.
func (p *pool) take(ctx context.Context, q *queueState, want int) (*slotRequest, error) {
	r := p.request(q, want)
	select {
	case <-r.granted:
		if want > 1 {
			_ = azstore.Sleep(ctx, moment)
		}
	case <-ctx.Done():
	}
	p.leave(r)
	if ctx.Err() == nil {
		return r, nil
	}
	p.back(r, r.got, 0)
	return nil, context.Cause(ctx)
}

// request asks for slots. A queue that had no request gets no credit for that time.
func (p *pool) request(q *queueState, want int) *slotRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.paid = max(q.paid, p.clock)
	r := &slotRequest{queue: q, want: want, granted: make(chan struct{})}
	p.waiting = append(p.waiting, r)
	p.assign()
	return r
}

// leave ends a request: it gets no more slots.
func (p *pool) leave(r *slotRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(w *slotRequest) bool { return w == r })
}

// back returns n slots and charges the queue for how long a message held them: 0 if there was
// none.
func (p *pool) back(r *slotRequest, n int, held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.queue.pay(held.Seconds() - float64(n)*r.queue.typical)
	p.hold(r.queue, -n)
	p.assign()
}

// occupy begins the work on one message, in one slot of r. worked gives the slot back when the
// work is done, so that the next message is fetched while this one is deleted. While as many
// are being deleted as the pool has slots, a further one keeps its slot until settled:
// deletes without an answer must not pile up.
func (p *pool) occupy(r *slotRequest) (worked, settled func()) {
	back := func() { p.back(r, 1, time.Since(r.since)) }
	return func() {
		if p.deleting.TryAcquire(1) {
			back()
			back = func() { p.deleting.Release(1) }
		}
	}, func() { back() }
}

func (p *pool) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}

// hold counts n slots as taken by a queue; a negative n counts them as returned. The caller
// holds mu, as for all below.
func (p *pool) hold(q *queueState, n int) {
	p.busy += n
	if q.urgent {
		p.urgent += n
	}
}

// assign gives every free slot to a request that may have it.
func (p *pool) assign() {
	for r := p.next(); r != nil; r = p.next() {
		if r.got == 0 {
			close(r.granted)
		}
		r.got++
		r.since = time.Now()
		r.queue.pay(r.queue.typical)
		p.hold(r.queue, 1)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(r *slotRequest) bool { return r.got == r.want })
}

// next returns the request that gets the next slot, or nil, and moves the clock. The slot
// beyond the pool's size may go to a queue that has paid more than others, which then wait
// for an ordinary one: the clock must not overtake them.
func (p *pool) next() (best *slotRequest) {
	least := math.Inf(1)
	for _, r := range p.waiting {
		least = min(least, r.queue.paid)
		if p.mayHave(r) && (best == nil || r.queue.next() < best.queue.next()) {
			best = r
		}
	}
	if best != nil {
		p.clock = max(p.clock, least)
	}
	return best
}

// mayHave reports whether a request may get another slot. Only one urgent item is counted
// in the slot beyond the pool's size, or a backlog of them would take every free slot.
func (p *pool) mayHave(r *slotRequest) bool {
	ordinary := p.busy - min(p.urgent, 1)
	return r.got < r.want && (ordinary < p.size || r.queue.urgent && p.urgent == 0)
}

// pay charges a queue for the time of a slot.
func (q *queueState) pay(seconds float64) { q.paid += seconds / q.weight }

// next is what the queue will have paid when it has got another slot.
func (q *queueState) next() float64 { return q.paid + q.typical/q.weight }
