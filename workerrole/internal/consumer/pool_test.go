package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// serve hands out n slots of p, one after the other, to queues that always have
// work, and returns the order in which they got them.
func serve(p *pool, n int, shares map[string]*share) string {
	var order strings.Builder
	for range n {
		p.mu.Lock()
		p.waiting = nil
		for _, s := range shares {
			s.paid = max(s.paid, p.clock)
			p.waiting = append(p.waiting, &turn{share: s, want: 1, granted: make(chan struct{})})
		}
		t := p.next(time.Now())
		p.clock = max(p.clock, t.share.paid)
		t.share.paid += 1 / t.share.weight
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
	shares := map[string]*share{"H": {weight: 6, reserved: true}, "N": {weight: 3}, "L": {weight: 1}}
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
func TestOverdueWorkGetsEverySecondTurn(t *testing.T) {
	t.Parallel()
	low := &share{weight: 1, maxWait: time.Minute, oldest: time.Now().Add(-time.Hour)}
	order := serve(&pool{size: 1}, 20, map[string]*share{"H": {weight: 6}, "N": {weight: 3}, "L": low})
	if got := strings.Count(order, "L"); got < 9 || got > 12 || strings.Contains(order, "LLL") {
		t.Errorf("overdue low work got %d of 20: %s", got, order)
	}
}

// A queue that slept does not come back with credit for hours.
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
		p := &pool{size: rapid.IntRange(1, 6).Draw(t, "slots")}
		shares := []*share{{weight: 6, reserved: true}, {weight: 3}, {weight: 1}}
		held := make([]int, len(shares))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(shares)-1).Draw(t, "queue")
			switch {
			case rapid.Bool().Draw(t, "take"):
				ctx, cancel := context.WithCancelCause(context.Background())
				cancel(errors.New("no waiting"))
				n, err := p.take(ctx, shares[i], rapid.IntRange(1, 32).Draw(t, "want"), 0, nil)
				if err == nil {
					held[i] += n
				}
			case held[i] > 0 && rapid.Bool().Draw(t, "unused"):
				p.refund(shares[i], held[i])
				held[i] = 0
			case held[i] > 0:
				p.done()
				held[i]--
			}
			if out := held[0] + held[1] + held[2]; out > p.size+1 || p.inUse() != out {
				t.Fatalf("%d slots out, pool counts %d of %d", out, p.inUse(), p.size)
			}
			if held[1]+held[2] > p.size {
				t.Fatalf("bulk work holds %d of %d slots and the reserved one", held[1]+held[2], p.size)
			}
		}
	})
}
