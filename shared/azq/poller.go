package azq

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstIdlePoll = 100 * time.Millisecond
	laneAwake     = time.Minute // after a message in any lane
)

// AsleepPoll is the pause between two looks at a lane other than 0 while no lane of any
// queue has had a message for a minute: they are used only while lane 0 is busy.
const AsleepPoll = 15 * time.Second

// queuePoller receives from one queue.
type queuePoller struct {
	queue *Queue
	kinds []string // of its items
	pool  *pool
	state *queueState
	lanes *lanes

	mu      sync.Mutex
	counted QueueStats
}

// lanes are the pollers of all queues that have lanes. A message in one wakes the others.
type lanes struct {
	pollers []*queuePoller
	latest  atomic.Int64 // message in any of them: Unix nanoseconds
}

func awake(latest int64) bool { return time.Since(time.Unix(0, latest)) <= laneAwake }

// sleeping reports whether this lane is polled every AsleepPoll only.
func (l *queuePoller) sleeping() bool {
	return l.queue.Spec().Lane() > 0 && !awake(l.lanes.latest.Load())
}

// found notes that the queue had a message, and wakes the other lanes if they sleep.
func (l *queuePoller) found() {
	if !l.queue.Spec().Laned || awake(l.lanes.latest.Swap(time.Now().UnixNano())) {
		return
	}
	for _, other := range l.lanes.pollers {
		if other != l {
			other.queue.Wake()
		}
	}
}

// lookAgain is how long after a look at what keeps the queue from being polled, a pause or a
// breaker, comes the next one. It makes no request.
const lookAgain = 250 * time.Millisecond

// poll receives from one queue until ctx ends. It asks only for as many messages as
// it holds slots, because a message that waits in this process would use up its
// visibility timeout. The pause after an empty answer doubles, until a message or a wake-up.
func (c *worker) poll(ctx context.Context, l *queuePoller) {
	spec := l.queue.Spec()
	idle := firstIdlePoll
	want := 1 // while the queue may be empty: other queues need slots too
	for ctx.Err() == nil {
		if l.queue.Paused() || c.breakers.block(l.kinds) {
			l.wait(ctx, lookAgain)
			continue
		}
		// snippet: slots-first
		slots, err := l.pool.take(ctx, l.state, want)
		if err != nil {
			return
		}
		leases, settled, err := c.receive(ctx, l, slots.got)
		l.pool.unused(slots, slots.got-len(leases))
		for _, lease := range leases {
			worked, left := l.pool.occupy(slots)
			c.running.Go(func() {
				c.work(ctx, l, lease, worked)
				settled()
				left()
			})
		}
		// end snippet
		want = 1
		if len(leases) > 0 {
			if len(leases) == slots.got { // there may be more
				want = MaxBatch
			}
			idle = firstIdlePoll
			l.count(func(s *QueueStats) { s.Received += int64(len(leases)) })
			l.found()
			continue
		}
		if err != nil {
			l.count(func(s *QueueStats) { s.ReceiveErrors++ })
			c.log.Warn("cannot receive", "queue", spec.Name, "error", err)
		} else {
			l.count(func(s *QueueStats) { s.EmptyPolls++ })
		}
		longest := l.longestIdle()
		if l.wait(ctx, min(spread(idle), longest)) {
			idle = firstIdlePoll
		} else {
			idle = min(2*idle, longest)
		}
	}
}

// longestIdle is the longest pause after an empty answer. Messages that are there may be
// hidden by a crashed worker.
func (l *queuePoller) longestIdle() time.Duration {
	if l.sleeping() {
		return min(AsleepPoll, l.queue.Visibility())
	}
	longest := l.queue.Spec().MaxIdlePoll
	if l.stats().Length > 0 {
		longest = min(longest, time.Second)
	}
	return longest
}

// receiving is the name under which breakers count trouble with a receive.
const receiving = "receive"

// receive goes on when ctx ends, because a request that is cut off may have hidden
// messages that no worker knows. settled is to be called for each lease.
func (c *worker) receive(ctx context.Context, l *queuePoller, slots int) (leases []*Lease, settled func(), err error) {
	if l.queue.Paused() { // perhaps since the poller waited for its slots
		return nil, nil, nil
	}
	slots, settled = c.breakers.admit(slots, l.kinds)
	if slots == 0 {
		return nil, nil, nil
	}
	patience := min(max(l.queue.Visibility()/4, time.Second), 10*time.Second)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	leases, err = l.queue.Receive(ctx, slots)
	if len(leases) == 0 {
		settled()
	}
	if dependency, trouble := AsDependencyError(err); trouble {
		c.breakers.failed(dependency, receiving, err)
	} else if err == nil {
		c.breakers.succeeded(receiving)
	}
	return leases, settled, err
}

// wait sleeps for d and reports whether a wake-up cut it short.
func (l *queuePoller) wait(ctx context.Context, d time.Duration) (woken bool) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	case <-l.queue.Woken():
		return true
	}
	return false
}
