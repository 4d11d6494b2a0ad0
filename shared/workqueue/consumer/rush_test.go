package consumer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waitedFor returns how long a turn for one slot of p waits.
func waitedFor(t *testing.T, p *pool, s *share) time.Duration {
	asked := time.Now()
	if n, err := p.take(t.Context(), s, 1, 0, nil); err != nil || n != 1 {
		t.Fatalf("got %d slots, %v", n, err)
	}
	return time.Since(asked)
}

// beginRush makes urgent work of lane 1 wait for a slot of a pool that is full, and returns
// what ends that.
func beginRush(t *testing.T, r *rush) (end func()) {
	full, urgent := &pool{size: 1, rush: r}, &share{lane: 1, weight: 6, urgent: true}
	for range 2 { // the pool's slot and the reserved one
		_ = waitedFor(t, full, urgent)
	}
	go func() {
		if _, err := full.take(t.Context(), urgent, 32, 0, nil); err != nil {
			t.Errorf("urgent work got no slot: %v", err)
		}
	}()
	synctest.Wait()
	return func() { full.done(urgent, false) }
}

// Q5: while urgent work of any lane and pool waits for a slot, bulk work gets none,
// although slots of its own pool are free.
func TestBulkWaitsForUrgentWorkOfAllLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rush{}
		p := &pool{size: 4, rush: r}
		bulk := &share{lane: 2, weight: 3, bulk: true}
		if d := waitedFor(t, p, bulk); d != 0 {
			t.Fatalf("with no rush, bulk work waited %v", d)
		}
		end := beginRush(t, r)
		if d := waitedFor(t, p, &share{lane: 3, weight: 3}); d != 0 {
			t.Errorf("work that is not bulk waited %v", d)
		}
		time.AfterFunc(10*time.Second, end)
		if d := waitedFor(t, p, bulk); d < 10*time.Second || d > 10*time.Second+rushGap+2*rushPoll {
			t.Errorf("bulk work waited %v for urgent work that waited 10 s", d)
		}
	})
}

// Q5: a customer whose urgent work hardly ever ends holds up the bulk of others for a
// minute at a time, and for half of the time at most.
func TestARushHoldsBulkUpForAMinuteAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rush{}
		p := &pool{size: 4, rush: r}
		bulk := &share{lane: 2, weight: 3, bulk: true}
		end := beginRush(t, r)
		if d := waitedFor(t, p, bulk); d < longestHold-time.Second || d > longestHold+time.Second {
			t.Errorf("bulk work waited %v, want %v", d, longestHold)
		}
		if d := waitedFor(t, p, bulk); d != 0 {
			t.Errorf("in the same rush it waited %v more", d)
		}
		end()
		time.Sleep(2 * rushGap) // in the bubble's time
		end = beginRush(t, r)
		if d := waitedFor(t, p, bulk); d != 0 {
			t.Errorf("bulk work was held for a minute, is free for %v, and waits %v again", 2*rushGap, d)
		}
		end()
		time.Sleep(longestHold)
		end = beginRush(t, r)
		time.AfterFunc(time.Second, end)
		if d := waitedFor(t, p, bulk); d < time.Second {
			t.Errorf("in a new rush it waited %v only", d)
		}
		time.Sleep(longestHold)
		if d, want := r.total(time.Now()), longestHold+time.Second+rushGap; d < want-time.Second || d > want+time.Second {
			t.Errorf("the two are counted as %v, want %v", d, want)
		}
	})
}

// A look at an urgent queue that may be empty is no rush.
func TestLookingIsNoRush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rush{}
		p := &pool{size: 1, rush: r}
		urgent := &share{lane: 1, weight: 6, urgent: true}
		_, _ = waitedFor(t, p, urgent), waitedFor(t, p, urgent)
		go func() { _, _ = p.take(t.Context(), urgent, 1, 0, nil) }()
		synctest.Wait()
		other := &pool{size: 1, rush: r}
		if d := waitedFor(t, other, &share{lane: 2, weight: 3, bulk: true}); d != 0 {
			t.Errorf("bulk work waited %v", d)
		}
		p.done(urgent, false)
	})
}

// An urgent queue that was empty gets messages while its look waits for a slot: from the
// next peek on that is a rush, and when another worker has taken them it is none.
func TestAPeekTellsAWaitingLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rush{}
		full, urgent := &pool{size: 1, rush: r}, &share{lane: 1, weight: 6, urgent: true}
		_, _ = waitedFor(t, full, urgent), waitedFor(t, full, urgent)
		var holds atomic.Bool // the queue has messages
		go func() { _, _ = full.take(t.Context(), urgent, 1, time.Second, holds.Load) }()
		p, bulk := &pool{size: 4, rush: r}, &share{lane: 2, weight: 3, bulk: true}
		time.Sleep(5 * time.Second) // in the bubble's time
		if d := waitedFor(t, p, bulk); d != 0 {
			t.Errorf("of an empty queue it waited %v", d)
		}
		holds.Store(true)
		time.Sleep(1500 * time.Millisecond)
		time.AfterFunc(10*time.Second, func() { holds.Store(false) })
		if d := waitedFor(t, p, bulk); d < 9*time.Second || d > 11*time.Second+rushGap+2*rushPoll {
			t.Errorf("bulk work waited %v for an urgent queue that had messages for 10 s", d)
		}
		full.done(urgent, false)
	})
}
