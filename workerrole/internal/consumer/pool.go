package consumer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pool is a number of slots that several queues share: a semaphore that knows
// whose turn it is. A slot is held while a poller asks for a message and then
// until the message's handler has returned.
//
// Whose turn it is, is smooth weighted round robin among the queues that wait,
// written as virtual time: a queue pays 1/weight for a slot, and the queue that
// paid least so far is next. With weights 6:3:1 and all queues full the turns go
// H N L H H N H H N H … A queue that had nothing to do does not save up credit,
// and a poller that found its queue empty gets its payment back.
//
// Two exceptions. A pool of two or more has one slot more than its size, for the
// queue with the reservation alone: critical work finds it free even when bulk
// work fills the pool, and bulk work may use the whole pool (see
// docs/decisions/0013-the-reserved-slot.md). And a queue whose oldest item waited longer than its MaxWait is next, but never twice
// in a row on that ground, so that old bulk work cannot push out the critical.
type pool struct {
	name string
	size int

	mu         sync.Mutex
	busy       int // slots held
	clock      float64
	waiting    []*turn // in order of arrival
	wasOverdue bool    // the latest slot went to an overdue queue
}

// share is one queue's part in a pool.
type share struct {
	weight   float64
	reserved bool
	maxWait  time.Duration

	paid   float64   // virtual time, guarded by pool.mu
	oldest time.Time // when the queue's oldest item was sent; zero if unknown; guarded by pool.mu
}

// turn is one queue's wish for slots.
type turn struct {
	share   *share
	want    int
	got     int
	granted chan struct{} // closed when got is at least 1
}

// take waits for at least one slot and returns how many it got, at most want.
// While it waits it calls look every so often, if every is not 0.
func (p *pool) take(ctx context.Context, s *share, want int, every time.Duration, look func()) (int, error) {
	t := &turn{share: s, want: want, granted: make(chan struct{})}
	p.mu.Lock()
	s.paid = max(s.paid, p.clock) // nobody saves up
	p.waiting = append(p.waiting, t)
	p.assign()
	p.mu.Unlock()

	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-t.granted:
			return t.got, nil
		default:
		}
		select {
		case <-t.granted:
			return t.got, nil
		case <-tick:
			look()
		case <-ctx.Done():
			p.leave(t)
			return 0, context.Cause(ctx)
		}
	}
}

// leave withdraws a wish, returning slots that were granted meanwhile.
func (p *pool) leave(t *turn) {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(w *turn) bool { return w == t })
	p.mu.Unlock()
	p.refund(t.share, t.got)
}

// refund returns n slots that were not used, and what was paid for them.
func (p *pool) refund(s *share, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.paid -= float64(n) / s.weight
	p.free(n)
}

// done returns one slot after its message was worked on.
func (p *pool) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(1)
}

// sawOldest records when the queue's oldest item was sent; zero when it is empty.
func (p *pool) sawOldest(s *share, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.oldest = sent
}

func (p *pool) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy
}

func (p *pool) free(n int) {
	p.busy -= n
	p.assign()
}

// assign hands out every free slot that somebody may have. The caller holds mu.
func (p *pool) assign() {
	for {
		t := p.next(time.Now())
		if t == nil {
			break
		}
		t.got++
		p.busy++
		p.clock = max(p.clock, t.share.paid)
		t.share.paid += 1 / t.share.weight
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(t *turn) bool {
		if t.got > 0 {
			close(t.granted)
		}
		return t.got > 0
	})
}

// next returns whose turn it is, or nil. The caller holds mu.
func (p *pool) next(now time.Time) *turn {
	var cheapest, overdue *turn
	var worst float64
	for _, t := range p.waiting {
		if t.got >= t.want || !p.mayHave(t.share) {
			continue
		}
		if cheapest == nil || t.share.before(cheapest.share) {
			cheapest = t
		}
		if late := t.share.overdue(now); late > 1 && late > worst && t.got == 0 {
			overdue, worst = t, late
		}
	}
	if overdue != nil && !p.wasOverdue {
		p.wasOverdue = true
		return overdue
	}
	if cheapest != nil {
		p.wasOverdue = false
	}
	return cheapest
}

func (p *pool) mayHave(s *share) bool {
	if s.reserved && p.size >= 2 {
		return p.busy < p.size+1
	}
	return p.busy < p.size
}

// before says who goes first: who paid less, and among equals the heavier.
func (s *share) before(other *share) bool {
	const same = 1e-9 // thirds do not add up exactly
	if d := s.paid - other.paid; d < -same || d > same {
		return d < 0
	}
	return s.weight > other.weight
}

// overdue is the age of the queue's oldest item in units of its MaxWait.
func (s *share) overdue(now time.Time) float64 {
	if s.maxWait <= 0 || s.oldest.IsZero() {
		return 0
	}
	return float64(now.Sub(s.oldest)) / float64(s.maxWait)
}
