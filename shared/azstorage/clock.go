package azstorage

import (
	"sync"
	"time"
)

// clock compares the service's clock with ours. Messages, rows and blobs have times of the
// service, and a worker whose clock is wrong would take fresh work for old.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration // of ours
	at    time.Time     // when that was found
}

const (
	// clockSlack is what the clocks may differ by, and what a reply cannot tell: it says the
	// time in whole seconds.
	clockSlack = 2 * time.Second
	// clockFor is how long a difference holds before a smaller one replaces it. A reply that
	// came late makes the difference look smaller than it is.
	clockFor = time.Minute
)

func (c *clock) set(there, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := there.Sub(here.Truncate(time.Second))
	if c.at.IsZero() || ahead > c.ahead || here.Sub(c.at) > clockFor {
		c.ahead, c.at = ahead, here
	}
}

// LocalTime converts a time of the service into one of this machine's clock, as far as
// replies have told the difference. A difference of a second or two is not corrected.
func (a *Account) LocalTime(there time.Time) time.Time {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	if a.clock.ahead.Abs() <= clockSlack || there.IsZero() {
		return there
	}
	return there.Add(-a.clock.ahead)
}
