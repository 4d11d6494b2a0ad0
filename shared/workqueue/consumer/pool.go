package consumer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/workqueue"
)

// pool is a number of slots that several queues share: a semaphore that decides who
// gets the next slot. A slot is held while a poller asks for a message and until the
// message's handler has returned.
//
// First it decides between lanes: lanes stand for customers (see workqueue.Lanes),
// and a customer with much work must not make one with little wait. Then it decides
// between the queues of that lane: urgent queues first, the rest by weight.
//
// Both are smooth weighted round robin in virtual time. For each slot a queue and its
// lane pay 1/weight, and the one that has paid least is next. With weights 6:3:1 and
// all queues of a lane full the order is H N L H H N H H N H …, and a lane of low work
// gets a sixth of the slots of a lane of high work. A queue that was empty gets no
// extra slots for that time. A receive that finds nothing does not count: its slot is
// not paid.
//
// There are four exceptions. Bulk queues wait for the urgent queues of all lanes, for a
// bounded time: see rush. Urgent queues have one slot beyond the pool's size, so an
// urgent item does not wait when bulk work fills the pool
// (docs/decisions/0013-the-reserved-slot.md). While an item that steps back holds a slot
// (Job.StepBack), lanes whose latest item did not step back have one more for brief work,
// because such an item leaves them the processor, but would keep its slot
// (docs/decisions/0052-a-slot-beside-what-steps-back.md). And a queue whose oldest item waited
// longer than its MaxWait is next in its lane, but a lane gives no two such slots in a
// row, so that old bulk work leaves slots to the others.
type pool struct {
	name string
	size int
	rush *rush // of all pools of a consumer; nil: bulk work never waits

	mu      sync.Mutex
	busy    int // slots held
	urgent  int // of them by urgent queues
	back    int // of them by items that step back
	clock   float64
	lanes   [workqueue.Lanes]lane
	waiting []*turn // in order of arrival
}

// lane is what a pool knows of the queues of one lane. Guarded by pool.mu.
type lane struct {
	paid       float64 // virtual time of the pool
	clock      float64 // of the lane's queues
	wasOverdue bool    // the lane's latest slot went to an overdue queue
	asking     int     // urgent queues with asking set
	back       bool    // its latest item that said so, or ended, steps back
}

// share is what a pool knows of one queue.
type share struct {
	lane    int
	weight  float64
	urgent  bool
	bulk    bool // see Spec.Bulk
	brief   bool // its items are short: see brief
	bound   *bound
	maxWait time.Duration

	asking bool      // it has slots and probably more messages; guarded by pool.mu
	paid   float64   // virtual time of the lane, guarded by pool.mu
	oldest time.Time // when the queue's oldest item was sent; zero if unknown; guarded by pool.mu
}

// bound is the most slots that a queue and its lanes may hold. Guarded by pool.mu; nil
// has none.
type bound struct{ most, held int }

// boundOf returns the bound of a declaration in a pool of this size.
func boundOf(spec workqueue.Spec, size int) *bound {
	if spec.PoolShare == 0 {
		return nil
	}
	return &bound{most: spec.SlotsOf(size)}
}

// brief is the longest typical time of work that gets a slot beside work that steps back.
// Long work would keep it from the next one, and the processor from what stepped back.
const brief = 10 * time.Second

// turn is one queue's request for slots.
type turn struct {
	share   *share
	want    int
	got     int
	granted chan struct{} // closed when got is at least 1
	// backlog says that the queue has messages as far as known: a turn for one slot is a
	// look at a queue that may be empty. Guarded by pool.mu.
	backlog bool
}

// take waits for at least one slot and returns how many it got, at most want. While
// it waits it calls look at the interval every, which reports whether the queue has
// messages; 0 means never.
func (p *pool) take(ctx context.Context, s *share, want int, every time.Duration, look func() bool) (int, error) {
	t := &turn{share: s, want: want, granted: make(chan struct{}), backlog: want > 1}
	p.mu.Lock()
	p.ask(s, false)
	p.arrive(s)
	p.waiting = append(p.waiting, t)
	p.assign()
	p.mu.Unlock()

	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	var again <-chan time.Time
	if s.urgent || s.bulk {
		ticker := time.NewTicker(rushPoll)
		defer ticker.Stop()
		again = ticker.C
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
			found := look()
			p.mu.Lock()
			t.backlog = found
			p.assign()
			p.mu.Unlock()
		case <-again: // a rush has gone on, or has ended in another pool
			p.mu.Lock()
			p.assign()
			p.mu.Unlock()
		case <-ctx.Done():
			p.leave(t)
			return 0, context.Cause(ctx)
		}
	}
}

// arrive raises what a queue and its lane have paid to what the others have paid now,
// so a queue that was empty gets no extra slots for that time. The caller holds mu.
func (p *pool) arrive(s *share) {
	l := &p.lanes[s.lane]
	l.paid = max(l.paid, p.clock)
	s.paid = max(s.paid, l.clock)
}

// pay charges a slot to a queue and its lane. The caller holds mu.
func (p *pool) pay(s *share) {
	l := &p.lanes[s.lane]
	p.clock = max(p.clock, l.paid)
	if !s.urgent { // urgent queues do not take part in the lane's weights
		l.clock = max(l.clock, s.paid)
	}
	l.paid += 1 / s.weight
	s.paid += 1 / s.weight
}

// leave withdraws a request and returns the slots that it got meanwhile.
func (p *pool) leave(t *turn) {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(w *turn) bool { return w == t })
	p.mu.Unlock()
	p.asked(t.share, t.got)
}

// asked ends a receive: n of the slots that take returned were not used, are free
// again and do not count as paid. If n is 0 the queue probably has more messages, and an
// urgent queue stays counted as asking until its next take.
func (p *pool) asked(s *share, n int) {
	if n > 0 {
		p.rest(s)
	}
	p.refund(s, n)
}

// rest says that a queue takes no slots for now.
func (p *pool) rest(s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ask(s, false)
}

// ask notes whether an urgent queue has slots and probably more messages. The caller
// holds mu.
func (p *pool) ask(s *share, asking bool) {
	if !s.urgent || s.asking == asking {
		return
	}
	s.asking = asking
	if asking {
		p.lanes[s.lane].asking++
	} else {
		p.lanes[s.lane].asking--
	}
}

// refund frees n slots that were not used, and takes back what they were charged.
func (p *pool) refund(s *share, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	back := float64(n) / s.weight
	s.paid -= back
	p.lanes[s.lane].paid -= back
	p.free(s, n)
}

// stepBack notes that an item that holds a slot leaves the processor to others.
func (p *pool) stepBack(s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back++
	p.lanes[s.lane].back = true
	p.assign()
}

// done returns the slot of a message that is settled; back if it stepped back.
func (p *pool) done(s *share, back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if back {
		p.back--
	}
	p.lanes[s.lane].back = back
	p.free(s, 1)
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

func (p *pool) free(s *share, n int) {
	p.hold(s, -n)
	p.assign()
}

// hold counts n slots as taken by a queue; a negative n counts them as returned. The
// caller holds mu.
func (p *pool) hold(s *share, n int) {
	p.busy += n
	if s.urgent {
		p.urgent += n
	}
	if s.bound != nil {
		s.bound.held += n
	}
}

// assign gives every free slot to a request that may have it. The caller holds mu.
func (p *pool) assign() {
	now := time.Now()
	for {
		t := p.next(now)
		if t == nil {
			break
		}
		t.got++
		p.hold(t.share, 1)
		p.pay(t.share)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(t *turn) bool {
		if t.got > 0 {
			close(t.granted)
			p.ask(t.share, true)
		}
		return t.got > 0
	})
	if slices.ContainsFunc(p.waiting, func(t *turn) bool { return t.share.urgent && t.backlog }) {
		p.rush.goesOn(now)
	}
}

// next returns who gets the next slot, or nil. It chooses the lane that paid least. In
// it an overdue queue is next, unless the lane's latest slot went to one; else an urgent
// queue, else the one that paid least. The caller holds mu.
func (p *pool) next(now time.Time) *turn {
	lane, found := 0, false
	for _, t := range p.waiting {
		if p.mayHave(t, now) && (!found || p.lanes[t.share.lane].paid < p.lanes[lane].paid-same) {
			lane, found = t.share.lane, true
		}
	}
	if !found {
		return nil
	}
	var cheapest, overdue *turn
	var worst float64
	for _, t := range p.waiting {
		if t.share.lane != lane || !p.mayHave(t, now) {
			continue
		}
		if cheapest == nil || t.share.before(cheapest.share) {
			cheapest = t
		}
		if late := t.share.overdue(now); late > 1 && late > worst && t.got == 0 {
			overdue, worst = t, late
		}
	}
	l := &p.lanes[lane]
	if overdue != nil && !l.wasOverdue {
		l.wasOverdue = true
		return overdue
	}
	l.wasOverdue = false
	return cheapest
}

// mayHave reports whether a turn may get another slot. Only one urgent item is counted
// in the slot beyond the pool's size. Further urgent items need ordinary slots, or a
// backlog of them would take every slot that becomes free. The caller holds mu.
func (p *pool) mayHave(t *turn, now time.Time) bool {
	if t.got >= t.want || t.share.bulk && p.rush.holds(now) {
		return false
	}
	if b := t.share.bound; b != nil && b.held >= b.most {
		return false
	}
	if !t.share.urgent && p.lanes[t.share.lane].asking > 0 {
		return false // urgent items of the same lane go first
	}
	size := p.size
	if p.back > 0 && t.share.brief && !p.lanes[t.share.lane].back {
		size++
	}
	ordinary := p.busy - min(p.urgent, 1)
	return ordinary < size || t.share.urgent && p.urgent == 0
}

// same is the difference below which two virtual times are equal: sums of thirds are
// not exact.
const same = 1e-9

// before orders the queues of a lane: urgent first, then by what they paid, then by
// weight.
func (s *share) before(other *share) bool {
	if s.urgent != other.urgent {
		return s.urgent
	}
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
