package azq

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// page is the rule of docs/scheduling.md for a pool whose queues ask for one slot at a time.
type page struct {
	size, busy, urgentBusy int
	clock                  float64
	queues                 []pageQueue
	waiting                []int // queues, in order of arrival
}

type pageQueue struct {
	weight, typical, paid float64
	urgent                bool
}

// give gives the next slot to a queue that waits, and returns it; -1 when none may have it.
func (m *page) give() int {
	next, least := -1, math.Inf(1)
	for _, i := range m.waiting {
		q := m.queues[i]
		least = min(least, q.paid)
		mayHave := m.busy-min(m.urgentBusy, 1) < m.size || q.urgent && m.urgentBusy == 0
		if mayHave && (next < 0 || m.after(i) < m.after(next)) {
			next = i
		}
	}
	if next < 0 {
		return -1
	}
	m.clock = max(m.clock, least)
	m.queues[next].paid = m.after(next)
	m.waiting = slices.DeleteFunc(m.waiting, func(i int) bool { return i == next })
	m.count(m.queues[next], 1)
	return next
}

// after is what a queue will have paid when it has got a slot.
func (m *page) after(i int) float64 {
	q := m.queues[i]
	return q.paid + q.typical/q.weight
}

func (m *page) count(q pageQueue, n int) {
	m.busy += n
	if q.urgent {
		m.urgentBusy += n
	}
}

func (m *page) arrive(i int) {
	m.queues[i].paid = max(m.queues[i].paid, m.clock)
	m.waiting = append(m.waiting, i)
}

func (m *page) end(i int, held float64) {
	q := &m.queues[i]
	q.paid += (held - q.typical) / q.weight
	m.count(*q, -1)
}

// Q5: the page says how a slot is given; the pool and the page agree whatever comes.
func TestPoolAgreesWithThePage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, agree)
}

func agree(t *rapid.T) {
	m := &page{size: rapid.IntRange(1, 3).Draw(t, "slots")}
	p := &pool{size: m.size}
	var queues []*queueState
	for range 10 {
		q := pageQueue{weight: rapid.SampledFrom([]float64{1, 3, 6, 8}).Draw(t, "weight"), typical: rapid.SampledFrom([]float64{1, 2, 8, 30}).Draw(t, "seconds")}
		q.urgent = q.weight == 8
		m.queues = append(m.queues, q)
		queues = append(queues, &queueState{weight: q.weight, urgent: q.urgent, typical: q.typical})
	}
	waiting, working := make([]*slotRequest, 10), make([]*slotRequest, 10)
	settle := func() {
		for i := m.give(); i >= 0; i = m.give() {
			if waiting[i] == nil || waiting[i].got != 1 {
				t.Fatalf("the page gives a slot to queue %d, and the pool does not", i)
			}
			working[i], waiting[i] = waiting[i], nil
		}
		if i := slices.IndexFunc(waiting, func(r *slotRequest) bool { return r != nil && r.got > 0 }); i >= 0 {
			t.Fatalf("the pool gives a slot to queue %d, and the page does not", i)
		}
	}
	for range rapid.IntRange(1, 80).Draw(t, "events") {
		i := rapid.IntRange(0, 9).Draw(t, "queue")
		switch {
		case working[i] != nil:
			held, r := time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms"))*time.Millisecond, working[i]
			m.end(i, held.Seconds())
			working[i] = nil
			p.back(r, 1, held)
		case waiting[i] == nil:
			m.arrive(i)
			waiting[i] = p.request(queues[i], 1)
		}
		settle()
	}
}
