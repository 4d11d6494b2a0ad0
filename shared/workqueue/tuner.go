package workqueue

import (
	"context"
	"sync"
	"time"
)

// When the visibility timeout in force changes (paper row Q16d).
const (
	staleAtLeast = 3    // this many deletes or renewals came too late …
	staleShare   = 0.01 // … and they are this share of all
	raiseFactor  = 1.5
	lowerFactor  = 0.9
	tuneWindow   = time.Minute // what is counted together
	cleanWindows = 10          // in a row without a late delete or renewal, before it is lowered
	maxTuned     = 15 * time.Minute
)

// tuner counts how the leases of one queue ended in this process.
type tuner struct {
	mu      sync.Mutex
	since   time.Time // start of the window
	done    int       // deletes in time
	stale   int       // deletes and renewals that came too late
	clean   int       // windows in a row without a stale one
	slowest time.Duration
}

// deleted records a delete in time. took is the time since the message was received.
func (t *tuner) deleted(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	t.slowest = max(t.slowest, took)
}

// late records a delete or renewal that failed because the message had become
// visible to others.
func (t *tuner) late() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale++
}

// judge returns the factor by which the visibility timeout is to change, and ends the window
// when its minute is over.
func (t *tuner) judge(now time.Time, inForce, declared time.Duration) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = now
	}
	if t.stale >= staleAtLeast && float64(t.stale) >= staleShare*float64(t.stale+t.done) {
		t.reset(now, 0)
		return raiseFactor
	}
	if now.Sub(t.since) < tuneWindow {
		return 1
	}
	clean := t.clean
	switch {
	case t.stale > 0:
		clean = 0
	case t.done > 0:
		clean++
	}
	slowest := t.slowest
	t.reset(now, clean)
	if clean >= cleanWindows && inForce > declared && inForce > 2*slowest {
		t.reset(now, 0)
		return lowerFactor
	}
	t.slowest = slowest
	return 1
}

func (t *tuner) reset(now time.Time, clean int) {
	t.since, t.done, t.stale, t.clean, t.slowest = now, 0, 0, clean, 0
}

// Tune raises the queue's visibility timeout by half when at least 3 deletes or
// renewals, and 1 % of all, came too late. After ten minutes without one it lowers
// it by a tenth, never below the declared value. The change is published, and every
// role reads it with its next [Queue.Length]. Consumers call it about every 15 s.
//
// Of two workers that see the same late deletes, only the first raises the timeout.
func (q *Queue) Tune(ctx context.Context) error {
	judged := q.Visibility()
	factor := q.lead.tuner.judge(time.Now(), judged, q.spec.Visibility)
	if factor == 1 {
		return nil
	}
	wanted := time.Duration(float64(judged) * factor)
	wanted = min(max(wanted, q.spec.Visibility), max(maxTuned, judged))
	return q.publish(ctx, func(p Policy) Policy {
		if q.visibilityUnder(p) == judged { // no other role was faster
			p.Visibility = wholeSeconds(wanted)
		}
		return p
	})
}

// wholeSeconds rounds up, because the service counts whole seconds.
func wholeSeconds(d time.Duration) time.Duration { return time.Duration(seconds(d)) * time.Second }
