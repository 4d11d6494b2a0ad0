package azq

import (
	"context"
	"sync"
	"time"
)

const (
	firstIdlePoll = 100 * time.Millisecond
	awakeFor      = time.Minute      // a poller looks often for this long after a message
	ringAwake     = 10 * time.Second // and after a ring
	// asleepPoll is how often the poller of a queue looks without being woken, when all else
	// should fail: see watch.
	asleepPoll = 6 * time.Hour
)

// queuePoller receives from one queue. Without messages it falls asleep after a minute, and
// is woken by a send in this process, by a ring or by the watch.
type queuePoller struct {
	queue *Queue
	kinds []string // of its items
	pool  *pool
	state *queueState

	mu      sync.Mutex
	counted QueueStats
	awake   time.Time // until then
}

// stay keeps the poller awake for d from now, or longer.
func (l *queuePoller) stay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.awake) {
		l.awake = until
	}
}

// awakeStill is for how long the poller stays awake without being woken.
func (l *queuePoller) awakeStill() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.awake)
}

func (l *queuePoller) asleep() bool { return l.awakeStill() <= 0 }

// poll receives from one queue until ctx ends. It asks only for as many messages as
// it holds slots, because a message that waits in this process would use up its
// visibility timeout. The pause after an empty answer doubles, until a message or a wake-up.
func (c *worker) poll(ctx context.Context, l *queuePoller) {
	spec := l.queue.Spec()
	idle := firstIdlePoll
	want := 1 // while the queue may be empty: other queues need slots too
	for ctx.Err() == nil {
		// snippet: slots-first
		slots, err := l.pool.take(ctx, l.state, want)
		if err != nil {
			return
		}
		leases, settled, err := c.receive(ctx, l, slots.got)
		l.pool.back(slots, slots.got-len(leases), 0)
		for _, lease := range leases {
			worked, left := l.pool.occupy(slots)
			c.running.Go(func() {
				c.work(ctx, l, lease, worked)
				settled()
				left()
			})
		}
		// end snippet
		if len(leases) > 0 {
			if want = 1; len(leases) == slots.got { // there may be more
				want = MaxBatch
			}
			idle = firstIdlePoll
			l.count(func(s *QueueStats) { s.Received += int64(len(leases)) })
			l.stay(awakeFor)
			continue
		}
		want = 1
		if err != nil {
			l.stay(awakeFor) // there may be messages
			l.count(func(s *QueueStats) { s.ReceiveErrors++ })
			c.log.Warn("cannot receive", "queue", spec.Name, "error", err)
		}
		pause := min(spread(idle), spec.MaxIdlePoll)
		if l.asleep() {
			pause = spread(asleepPoll)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			idle = min(2*idle, spec.MaxIdlePoll)
		case <-l.queue.wake:
			idle = firstIdlePoll
		}
	}
}

// receiving is the name under which breakers count trouble with a receive.
const receiving = "receive"

// receive goes on when ctx ends, because a request that is cut off may have hidden
// messages that no worker knows. It asks for none while the queue is paused or a breaker is
// open. settled is to be called for each lease.
func (c *worker) receive(ctx context.Context, l *queuePoller, slots int) (leases []*Lease, settled func(), err error) {
	slots, settled = c.breakers.admit(slots, l.kinds)
	if slots == 0 {
		l.stay(awakeFor) // it has not looked
		return nil, nil, nil
	}
	err = c.refreshIfOld(ctx, l)
	if ctx.Err() != nil || err == nil && l.queue.Policy().Paused { // since the poller slept, or waited for its slots
		settled()
		return nil, nil, nil
	}
	if err == nil { // the policy is known
		patience := min(max(l.queue.Visibility()/4, time.Second), 10*time.Second)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		leases, err = l.queue.Receive(ctx, slots)
	}
	if len(leases) == 0 {
		settled()
	}
	if dependency, trouble := AsDependencyError(err); trouble {
		c.breakers.failed(dependency, receiving, err)
	} else if err == nil {
		c.breakers.succeeded(receiving)
		if len(leases) == 0 {
			l.count(func(s *QueueStats) { s.EmptyPolls++ })
		}
	}
	return leases, settled, err
}
