package azq

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The loads of `make bench`, section busy, on two workers of two slots in virtual time. The
// processor is not simulated: an item takes the time of its class, whatever else runs.
const (
	firstTakes  = 2 * time.Second // an item of the urgent queue
	leadTakes   = 2 * time.Second
	normalTakes = 30 * time.Second
	clipTakes   = 5 * time.Second // one of the few chunks of a clip, in the queue of normal ones
	lowTakes    = 30 * time.Second
)

// arrivals are the queues of two workers in virtual time, and what these do with them.
type arrivals struct {
	mu      sync.Mutex
	queues  map[string]*arrivalQueue
	working sync.WaitGroup
	ctx     context.Context
}

type arrivalQueue struct {
	waiting []func() // what is to be called when an item is done
	wakes   []chan struct{}
	takes   time.Duration
}

var classes = map[string]struct {
	weight float64
	takes  time.Duration
	urgent bool
}{"first": {24, firstTakes, true}, "high": {6, leadTakes, false}, "normal": {3, normalTakes, false}, "low": {1, lowTakes, false}}

// play runs a load on the queues of four lanes in a bubble, whose time passes at once.
func play(t *testing.T, load func(t *testing.T, a *arrivals)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &arrivals{queues: map[string]*arrivalQueue{}, ctx: ctx}
		workers := []*pool{{size: 2}, {size: 2}}
		for class, c := range classes {
			for lane := range 4 {
				q := &arrivalQueue{takes: c.takes}
				a.queues[fmt.Sprint(class, lane)] = q
				for _, p := range workers {
					wake := make(chan struct{}, 1)
					q.wakes = append(q.wakes, wake)
					a.working.Go(func() {
						a.poll(p, q, &queueState{weight: c.weight, urgent: c.urgent, typical: c.takes.Seconds()}, wake)
					})
				}
			}
		}
		synctest.Wait()
		load(t, a)
		cancel()
		a.working.Wait()
	})
}

// send puts n items into a queue; done is called after each.
func (a *arrivals) send(queue string, n int, done func()) {
	q := a.queues[queue]
	a.mu.Lock()
	defer a.mu.Unlock()
	for range n {
		q.waiting = append(q.waiting, done)
	}
	for _, wake := range q.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// wait returns how long an item takes from its sending to its end.
func (a *arrivals) wait(queue string) time.Duration {
	start, end := time.Now(), make(chan struct{})
	a.send(queue, 1, func() { close(end) })
	<-end
	return time.Since(start)
}

func (a *arrivals) receive(q *arrivalQueue, n int) (got []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = min(n, len(q.waiting))
	got, q.waiting = q.waiting[:n:n], q.waiting[n:]
	return got
}

func (a *arrivals) poll(p *pool, q *arrivalQueue, state *queueState, wake chan struct{}) {
	for {
		slots, err := p.take(a.ctx, state, 1)
		if err != nil {
			return
		}
		got := a.receive(q, slots.got)
		p.back(slots, slots.got-len(got), 0)
		for _, done := range got {
			a.working.Go(func() {
				select {
				case <-time.After(q.takes):
					done()
				case <-a.ctx.Done():
				}
				p.back(slots, 1, time.Since(slots.since))
			})
		}
		if len(got) == 0 {
			select {
			case <-wake:
			case <-a.ctx.Done():
				return
			}
		}
	}
}

func nothing() {}

// Q5: behind fifty films, whose chunks fill the pool, a clip is playable within twice its
// time on an idle worker and 2 s.
func TestPromiseBehindFilms(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, a *arrivals) {
		a.send("normal1", 200, nothing)
		a.send("normal2", 200, nothing)
		for i := range 20 {
			time.Sleep(17 * time.Second)
			if took := a.wait("first3"); took > 2*firstTakes+2*time.Second {
				t.Errorf("clip %d: its first chunk took %v", i, took)
			}
		}
	})
}

// Q5: behind two thousand clips of another channel, which travel a class lower, all chunks of
// a quiet channel's clip are done within four times their time on an idle worker.
func TestPromiseBesideANoisyChannel(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, a *arrivals) {
		for lane := 1; lane <= 2; lane++ {
			a.send(fmt.Sprint("high", lane), 1000, nothing)
			a.queues[fmt.Sprint("normal", lane)].takes = clipTakes
			a.send(fmt.Sprint("normal", lane), 2000, nothing)
		}
		var worst time.Duration
		for i := range 10 {
			time.Sleep(time.Minute)
			var clip sync.WaitGroup
			start := time.Now()
			for _, queue := range []string{"first3", "high3", "high3"} {
				clip.Add(1)
				a.send(queue, 1, clip.Done)
			}
			clip.Wait()
			took := time.Since(start)
			worst = max(worst, took)
			if took > 4*leadTakes {
				t.Errorf("clip %d took %v, on an idle worker %v", i, took, leadTakes)
			}
		}
		t.Logf("at most %v, on an idle worker %v", worst, leadTakes)
	})
}

// Q5: of fifty uploads at once all have their first chunk within 1.5 × the time that the
// first chunks of all would take alone.
func TestPromiseOfFiftyUploads(t *testing.T) {
	t.Parallel()
	const uploads = 50
	last := func(others bool) (took time.Duration) {
		play(t, func(t *testing.T, a *arrivals) {
			var all sync.WaitGroup
			start := time.Now()
			all.Add(uploads)
			for i := range uploads {
				a.send(fmt.Sprint("first", i%4), 1, all.Done)
			}
			synctest.Wait()
			for i := range uploads {
				if others {
					a.send(fmt.Sprint("high", i%4), 2, nothing)
					a.send(fmt.Sprint("normal", i%4), 5, nothing)
				}
			}
			all.Wait()
			took = time.Since(start)
		})
		return took
	}
	alone, beside := last(false), last(true)
	t.Logf("the last of %d first chunks is done after %v, alone after %v", uploads, beside, alone)
	if float64(beside) > 1.5*float64(alone) {
		t.Errorf("%.1f × the time alone", float64(beside)/float64(alone))
	}
}

// Q5: low work gets its share while all else comes without end: of the ordinary slots' time
// at least one part of all weights.
func TestPromiseThatLowWorkGoesOn(t *testing.T) {
	t.Parallel()
	play(t, func(t *testing.T, a *arrivals) {
		var low atomic.Int64
		sum := 0.0
		for class, c := range classes {
			for lane := range 4 {
				if class != "low" {
					a.send(fmt.Sprint(class, lane), 20_000, nothing)
					sum += c.weight
				}
			}
		}
		a.send("low0", 1000, func() { low.Add(1) })
		const span = 6 * time.Hour
		time.Sleep(span)
		if want := int64(math.Floor(span.Seconds() * 4 / (sum + 1) / lowTakes.Seconds())); low.Load() < want-1 {
			t.Errorf("%d items of low work in %v, want %d", low.Load(), span, want)
		}
	})
}
