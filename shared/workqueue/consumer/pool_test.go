package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/workqueue"
)

// serve hands out n slots of p, one after the other, to queues that always have
// work, and returns the order in which they got them.
func serve(p *pool, n int, shares map[string]*share) string {
	var order strings.Builder
	for range n {
		p.mu.Lock()
		p.waiting = nil
		for _, s := range shares {
			p.arrive(s)
			p.waiting = append(p.waiting, &turn{share: s, want: 1, granted: make(chan struct{})})
		}
		t := p.next(time.Now())
		p.pay(t.share)
		p.waiting = nil
		p.mu.Unlock()
		for name, s := range shares {
			if s == t.share {
				order.WriteString(name)
			}
		}
	}
	return order.String()
}

// Q5: six, three and one of ten, spread evenly, also when a pool has one slot.
func TestWeightsShareAOneSlotPool(t *testing.T) {
	t.Parallel()
	shares := map[string]*share{"H": {weight: 6}, "N": {weight: 3}, "L": {weight: 1}}
	order := serve(&pool{size: 1}, 100, shares)
	for name, want := range map[string]int{"H": 60, "N": 30, "L": 10} {
		if got := strings.Count(order, name); got < want-1 || got > want+1 {
			t.Errorf("%s got %d of 100 slots, want %d: %s", name, got, want, order)
		}
	}
	if strings.Contains(order, "HHHH") || strings.Contains(order, "LL") {
		t.Errorf("turns come in bursts: %s", order)
	}
}

// Old bulk work goes first, but not twice in a row.
func TestOverdueWorkGetsEverySecondSlot(t *testing.T) {
	t.Parallel()
	low := &share{weight: 1, maxWait: time.Minute, oldest: time.Now().Add(-time.Hour)}
	order := serve(&pool{size: 1}, 20, map[string]*share{"H": {weight: 6}, "N": {weight: 3}, "L": low})
	if got := strings.Count(order, "L"); got < 9 || got > 12 || strings.Contains(order, "LLL") {
		t.Errorf("overdue low work got %d of 20: %s", got, order)
	}
}

// Q5: whatever a lane's other queues have waiting, what a video needs to begin
// is next.
func TestUrgentWorkGoesFirstInItsLane(t *testing.T) {
	t.Parallel()
	shares := map[string]*share{"U": {weight: 6, urgent: true}, "H": {weight: 6}, "L": {weight: 1, maxWait: time.Minute, oldest: time.Now().Add(-time.Hour)}}
	order := serve(&pool{size: 1}, 40, shares)
	if n := strings.Count(order, "U"); n < 20 || strings.Contains(order, "H") && strings.Index(order, "H") < strings.Index(order, "U") {
		t.Errorf("urgent work got %d of 40 slots beside work that is overdue: %s", n, order)
	}
	delete(shares, "L")
	if order := serve(&pool{size: 1}, 40, shares); strings.Contains(order, "H") {
		t.Errorf("urgent work had to wait: %s", order)
	}
}

// Q5: a customer with much work does not keep another one waiting, not even with
// beginnings, and pays for each slot by its weight.
func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	noisy, quiet := &share{lane: 1, weight: 6, urgent: true}, &share{lane: 2, weight: 3}
	low := &share{lane: 3, weight: 1}
	p := &pool{size: 1}
	_ = serve(p, 500, map[string]*share{"A": noisy})
	order := serve(p, 90, map[string]*share{"A": noisy, "b": quiet})
	if n := strings.Count(order, "b"); order[0] != 'A' && order[0] != 'b' || strings.Index(order, "b") > 1 || n < 28 || n > 32 {
		t.Errorf("a lane of weight 3 beside one of weight 6 got %d of 90 slots: %s", n, order)
	}
	order = serve(p, 100, map[string]*share{"A": noisy, "b": quiet, "l": low})
	for name, want := range map[string]int{"A": 60, "b": 30, "l": 10} {
		if got := strings.Count(order, name); got < want-2 || got > want+2 {
			t.Errorf("lane %s got %d of 100 slots, want %d: %s", name, got, want, order)
		}
	}
}

// A queue that was empty for hours gets no extra slots for them.
func TestIdleQueueSavesUpNothing(t *testing.T) {
	t.Parallel()
	p := &pool{size: 1}
	n, h := &share{weight: 3}, &share{weight: 6}
	_ = serve(p, 1000, map[string]*share{"N": n})
	if order := serve(p, 12, map[string]*share{"N": n, "H": h}); strings.Count(order, "H") > 9 || order[0] != 'H' {
		t.Errorf("after a long idle time the high queue got %s, want it first and then its share", order)
	}
}

// Whatever the queues do, a pool never has more slots out than it has and the
// reserved one, keeps that for its queue, and gets every slot back.
func TestPoolNeverOverflows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{size: rapid.IntRange(1, 6).Draw(t, "slots"), rush: &rush{}}
		half := boundOf(workqueue.Spec{PoolShare: 0.5}, p.size)
		shares := []*share{
			{weight: 6, urgent: true}, {weight: 3, brief: true}, {weight: 1, bulk: true},
			{weight: 3, bound: half, bulk: true}, {weight: 3, bound: half, lane: 1}, {weight: 3, brief: true, lane: 2},
		}
		held, back := make([]int, len(shares)), 0 // back: of the slots held, by items that step back
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(shares)-1).Draw(t, "queue")
			all := held[i]
			if i == 4 {
				all -= back
			}
			switch action := rapid.SampledFrom([]string{"take", "refund", "done", "step back", "done, stepped back"}).Draw(t, "action"); {
			case action == "take":
				ctx, cancel := context.WithCancelCause(context.Background())
				cancel(errors.New("no waiting"))
				n, err := p.take(ctx, shares[i], rapid.IntRange(1, 32).Draw(t, "want"), 0, nil)
				if err == nil {
					p.rest(shares[i])
					held[i] += n
				}
			case action == "refund" && all > 0:
				p.refund(shares[i], all)
				held[i] -= all
			case action == "done" && all > 0:
				p.done(shares[i], false)
				held[i]--
			case action == "step back" && held[4] > back:
				p.stepBack(shares[4])
				back++
			case action == "done, stepped back" && back > 0:
				p.done(shares[4], true)
				held[4]--
				back--
			}
			out := 0
			for _, n := range held {
				out += n
			}
			if p.inUse() != out {
				t.Fatalf("%d slots out, the pool counts %d", out, p.inUse())
			}
			if most := p.size + 1 + min(back, 1); out > most {
				t.Fatalf("%d slots out of %d, the reserved one, and %d beside what steps back", out, p.size, back)
			}
			if bulk := out - held[0]; bulk > p.size+min(back, 1) {
				t.Fatalf("bulk work holds %d of %d slots", bulk, p.size)
			}
			if held[3]+held[4] > half.most {
				t.Fatalf("two lanes of a queue hold %d slots of the %d of its share", held[3]+held[4], half.most)
			}
		}
	})
}

// Q5: work that steps back leaves others the processor, and one slot beside it: at once
// to a lane that does not step back itself, one at a time, and never to its own.
func TestOthersHaveASlotBesideWorkThatStepsBack(t *testing.T) {
	t.Parallel()
	p := &pool{size: 2}
	noisy, louder, quiet := &share{lane: 1, weight: 3}, &share{lane: 2, weight: 3}, &share{lane: 0, weight: 3, brief: true}
	long := &share{lane: 0, weight: 3}
	noisy.brief, louder.brief = true, true
	take := func(s *share) bool {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no waiting"))
		n, _ := p.take(ctx, s, 1, 0, nil)
		return n == 1
	}
	if !take(noisy) || !take(louder) || take(quiet) {
		t.Fatal("a pool of two slots has not two")
	}
	p.stepBack(noisy)
	if take(noisy) {
		t.Error("the lane that steps back got the slot beside itself")
	}
	p.stepBack(louder)
	if take(louder) {
		t.Error("another lane that steps back got it")
	}
	if take(long) {
		t.Error("long work got it")
	}
	if !take(quiet) {
		t.Fatal("a lane that does not step back had to wait")
	}
	if take(quiet) {
		t.Error("there is a second one")
	}
	p.done(quiet, false)
	if !take(quiet) {
		t.Error("it is not there again")
	}
	p.done(noisy, true)
	p.done(louder, true)
	if !take(noisy) || take(noisy) || take(quiet) {
		t.Error("without work that steps back there are not two slots")
	}
}

// A turn that waits for a slot gets one when somebody steps back.
func TestSteppingBackGivesASlotAtOnce(t *testing.T) {
	t.Parallel()
	p := &pool{size: 1}
	if _, err := p.take(t.Context(), &share{lane: 1, weight: 1}, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	got := make(chan int)
	go func() {
		n, _ := p.take(t.Context(), &share{weight: 1, brief: true}, 1, 0, nil)
		got <- n
	}()
	for p.mu.Lock(); len(p.waiting) == 0; p.mu.Lock() { // bounded by the test's time
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	p.mu.Unlock()
	p.stepBack(&share{lane: 1})
	if n := <-got; n != 1 {
		t.Errorf("got %d slots", n)
	}
}

// Q5: a queue with a share of the pool never holds more, whichever of its lanes asks, and
// the rest is for others.
func TestAQueueHoldsItsShareOfAPool(t *testing.T) {
	t.Parallel()
	p := &pool{size: 4}
	half := boundOf(workqueue.Spec{PoolShare: 0.5}, p.size)
	long, other := &share{weight: 3, bound: half}, &share{lane: 1, weight: 3, bound: half}
	if n, err := p.take(t.Context(), long, 4, 0, nil); n != 2 || err != nil {
		t.Fatalf("got %d of 4 slots, want 2: %v", n, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := p.take(soon, other, 1, 0, nil); err == nil {
		t.Fatalf("another lane of the queue got %d slots more", n)
	}
	if n, err := p.take(t.Context(), &share{weight: 1}, 4, 0, nil); n != 2 || err != nil {
		t.Fatalf("others got %d of the 2 slots that are left: %v", n, err)
	}
	p.done(long, false)
	if n, err := p.take(t.Context(), other, 4, 0, nil); n != 1 || err != nil {
		t.Errorf("got %d slots after one was returned, want 1: %v", n, err)
	}
	if one := boundOf(workqueue.Spec{PoolShare: 0.5}, 1); one.most != 1 {
		t.Errorf("in a pool of one slot it may hold %d", one.most)
	}
}
