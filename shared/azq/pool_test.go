package azq

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// queueOf is a queue whose items typically take some seconds.
func queueOf(weight, seconds float64) *queueState {
	return &queueState{weight: weight, typical: seconds}
}

func urgentQueueOf(weight, seconds float64) *queueState {
	q := queueOf(weight, seconds)
	q.urgent = true
	return q
}

// serve works on n items, one after the other, of queues that always have more, and returns
// the order. Each item takes the typical time of its queue.
func serve(p *pool, n int, queues map[string]*queueState) string {
	var order strings.Builder
	waiting := map[string]*slotRequest{}
	for range n {
		for name, q := range queues {
			if waiting[name] == nil {
				waiting[name] = p.request(q, 1)
			}
		}
		for name, r := range waiting {
			if r.got > 0 {
				order.WriteString(name)
				waiting[name] = p.request(r.queue, 1) // as a poller does, before the item is done
				p.back(r, 1, time.Duration(r.queue.typical*float64(time.Second)))
				break
			}
		}
	}
	for _, r := range waiting {
		p.leave(r)
		p.back(r, r.got, 0)
	}
	return order.String()
}

// Q5: of the time, six, three and one of ten seconds, also when a pool has one slot.
func TestWeightsShareAOneSlotPool(t *testing.T) {
	t.Parallel()
	order := serve(&pool{size: 1}, 400, map[string]*queueState{"H": queueOf(6, 1), "N": queueOf(3, 2), "L": queueOf(1, 1)})
	seconds := map[string]int{"H": strings.Count(order, "H"), "N": 2 * strings.Count(order, "N"), "L": strings.Count(order, "L")}
	all := seconds["H"] + seconds["N"] + seconds["L"]
	for name, tenths := range map[string]int{"H": 6, "N": 3, "L": 1} {
		if got := 10 * seconds[name]; got < tenths*all-30 || got > tenths*all+30 {
			t.Errorf("%s had %d of %d seconds, want %d tenths: %s", name, seconds[name], all, tenths, order)
		}
	}
}

// A queue that was empty for hours gets no extra slots for them.
func TestIdleQueueSavesUpNothing(t *testing.T) {
	t.Parallel()
	p, n, h := &pool{size: 1}, queueOf(3, 1), queueOf(6, 1)
	_ = serve(p, 1000, map[string]*queueState{"N": n})
	if order := serve(p, 12, map[string]*queueState{"N": n, "H": h}); strings.Count(order, "H") > 9 || strings.Index(order, "H") > 1 {
		t.Errorf("after a long idle time the high queue got %s, want it soon and then its share", order)
	}
}

// What took longer than is typical is paid when it ends.
func TestLongItemsPayForTheirLength(t *testing.T) {
	t.Parallel()
	p, long, short := &pool{size: 1}, queueOf(1, 1), queueOf(1, 1)
	r := p.request(long, 1)
	next := map[string]*slotRequest{"L": p.request(long, 1), "S": p.request(short, 1)}
	p.back(r, 1, 20*time.Second)
	for i := range 15 {
		r := next["S"]
		if r.got != 1 {
			t.Fatalf("the long item paid for %d seconds, want 20", i)
		}
		next["S"] = p.request(short, 1)
		p.back(r, 1, time.Second)
	}
}

// A backlog of urgent work uses its own slot all the time. Another queue's newcomer is not
// behind the seconds that this costs.
func TestTheUrgentSlotDoesNotMoveTheClock(t *testing.T) {
	t.Parallel()
	p, bulk, urgent, newcomer := &pool{size: 1}, queueOf(1, 1), urgentQueueOf(1, 1), queueOf(1, 1)
	held, next := p.request(bulk, 1), p.request(bulk, 1)
	for range 60 {
		r := p.request(urgent, 1)
		p.back(r, 1, time.Second)
	}
	r := p.request(newcomer, 1)
	p.back(held, 1, time.Minute)
	if r.got+next.got != 1 || newcomer.paid > 2 {
		t.Errorf("the newcomer has paid for %v s", newcomer.paid)
	}
}

// Work that was received together and ends nearly together is one request's slots, so that one
// receive fetches for all of them. A queue that may be empty waits for no second slot.
func TestSlotsThatComeTogetherAreTakenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, q := newPool("p", 4), queueOf(1, 1)
		first, err := p.take(t.Context(), q, 32)
		if err != nil || first.got != 4 {
			t.Fatalf("%d slots, %v; want 4", first.got, err)
		}
		for range 4 {
			go func() {
				time.Sleep(time.Duration(rand.Int64N(int64(moment) / 2)))
				p.back(first, 1, time.Second)
			}()
		}
		began := time.Now()
		if r, err := p.take(t.Context(), q, 32); err != nil || r.got != 4 || time.Since(began) > 2*moment {
			t.Errorf("%d slots after %v, %v; want all 4", r.got, time.Since(began), err)
		} else {
			p.back(r, 4, 0)
		}
		began = time.Now()
		if r, err := p.take(t.Context(), q, 1); err != nil || r.got != 1 || time.Since(began) != 0 {
			t.Errorf("%d slots after %v, %v; want one at once", r.got, time.Since(began), err)
		}
	})
}

// Whatever the queues do, a pool never has more slots out than it has and the one for
// urgent work, keeps that for it, and gets every slot back.
func TestPoolNeverOverflows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{size: rapid.IntRange(1, 6).Draw(t, "slots")}
		queues := []*queueState{urgentQueueOf(12, 1), urgentQueueOf(12, 1), queueOf(3, 1), queueOf(1, 10)}
		var requests []*slotRequest
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(queues)-1).Draw(t, "queue")
			at := slices.IndexFunc(requests, func(r *slotRequest) bool { return r.queue == queues[i] && r.got > 0 })
			if at >= 0 {
				p.leave(requests[at])
			}
			switch action := rapid.SampledFrom([]string{"request", "unused", "done", "leave"}).Draw(t, "action"); {
			case action == "request":
				requests = append(requests, p.request(queues[i], rapid.IntRange(1, 32).Draw(t, "want")))
			case action == "leave" && len(p.waiting) > 0:
				p.leave(p.waiting[0])
			case action == "unused" && at >= 0:
				p.back(requests[at], 1, 0)
				requests[at].got--
			case action == "done" && at >= 0:
				p.back(requests[at], 1, time.Second)
				requests[at].got--
			}
			out, urgent := 0, 0
			for _, r := range requests {
				out += r.got
				if r.queue.urgent {
					urgent += r.got
				}
			}
			if p.inUse() != out || out > p.size+min(urgent, 1) {
				t.Fatalf("%d slots out of %d, %d of them urgent; the pool counts %d", out, p.size, urgent, p.inUse())
			}
			if free := p.size - (out - min(urgent, 1)); free > 0 && len(p.waiting) > 0 {
				t.Fatalf("%d slots are free and %d requests wait", free, len(p.waiting))
			}
		}
	})
}
