package consumer

import (
	"sync"
	"time"
)

// rush is a time in which urgent work waits for slots, in any lane and any pool of a
// consumer. Bulk queues of all lanes then get no slot, or of fifty uploads at once the
// first would be done before the last is begun: it may be in a lane that has little to
// do, and a lane's turn is worth as much for bulk as for urgent work.
//
// A rush holds bulk work up for longestHold at most. It ends when urgent work has had no
// need to wait for rushGap, and the next one begins no sooner than bulk work has been free
// for as long as it was held: one customer's urgent work must not stop the bulk of another
// for more than half of the time (docs/decisions/0055-bulk-waits-a-minute-for-beginnings.md).
// Safe for concurrent use.
type rush struct {
	mu    sync.Mutex
	since time.Time     // when urgent work began to wait
	last  time.Time     // when it was last seen waiting
	held  time.Duration // by the rushes before this one
}

const (
	// longestHold is enough for some fifty beginnings on two cores.
	longestHold = time.Minute
	// rushGap is how long after the last waiting urgent item a rush goes on: what is
	// received now may lead to urgent work in another pool, as a probe does.
	rushGap = 2 * time.Second
	// rushPoll is the pause between two looks of a waiting queue whether a rush goes on.
	rushPoll = 500 * time.Millisecond
)

// goesOn notes that urgent work waits now.
func (r *rush) goesOn(now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > rushGap {
		if now.Sub(r.since) < 2*r.length() {
			return // bulk work has its turns first
		}
		if !r.since.IsZero() {
			r.held += r.length()
		}
		r.since = now
	}
	r.last = now
}

// holds reports whether bulk work waits now.
func (r *rush) holds(now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.last) <= rushGap && now.Sub(r.since) < longestHold
}

// total returns for how long bulk work was held up since the start.
func (r *rush) total(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		return 0
	}
	return r.held + min(now.Sub(r.since), r.length())
}

// length is how long the latest rush held bulk work up, or will have if no urgent work
// waits any more. The caller holds mu.
func (r *rush) length() time.Duration { return min(r.last.Sub(r.since)+rushGap, longestHold) }
