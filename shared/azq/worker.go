package azq

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// worker receives and settles the messages of a client.
type worker struct {
	options  Options
	handlers map[string]Handler // by kind, with the middleware around them
	hooks    map[string]Exhausted
	tell     func(Event)
	log      *slog.Logger
	pools    []*pool        // by name
	pollers  []*queuePoller // in the order of the specs
	running  sync.WaitGroup
	draining atomic.Bool
	breakers *breakers
	owners   sync.Map // of *owner: the items in progress
}

// newWorker makes a worker for the queues whose pool has slots.
func newWorker(qs *queues, options Options, handlers map[string]Handler, tell func(Event)) *worker {
	c := &worker{options: options, handlers: map[string]Handler{}, hooks: map[string]Exhausted{}, tell: tell}
	for kind, h := range handlers {
		c.hooks[kind], _ = h.(Exhausted)
		for i := len(options.Middleware) - 1; i >= 0; i-- {
			h = options.Middleware[i](h)
		}
		c.handlers[kind] = h
	}
	c.log = c.options.Log.With("worker", c.options.Worker)
	c.breakers = newBreakers(c.options, c.log, tell)
	byName, side := map[string]*pool{}, &lanes{}
	for _, spec := range qs.specs {
		slots, _ := options.slots(spec.Pool)
		if slots <= 0 {
			continue
		}
		p := byName[spec.Pool]
		if p == nil {
			p = newPool(spec.Pool, slots)
			byName[spec.Pool] = p
			c.pools = append(c.pools, p)
		}
		l := &queuePoller{
			queue: qs.byName[spec.Name],
			kinds: carriedBy(spec, qs.specs, handlers),
			pool:  p,
			state: &queueState{weight: float64(spec.Weight), typical: spec.Typical.Seconds(), urgent: spec.Urgent},
			lanes: side,
		}
		if spec.Laned {
			side.pollers = append(side.pollers, l)
		}
		c.pollers = append(c.pollers, l)
	}
	// Lengths count the hidden messages of dead workers: reading them twice in a visibility
	// timeout shows which queues to poll often.
	for _, l := range c.pollers {
		c.options.RefreshPolicy = min(c.options.RefreshPolicy, l.queue.Spec().Visibility/2)
	}
	return c
}

// run receives and settles messages until ctx ends, then drains: see [Client.Run].
func (c *worker) run(ctx context.Context) {
	var loops sync.WaitGroup
	c.breakers.ctx = ctx
	known := c.refresh(ctx)
	loops.Go(func() {
		for ctx.Err() == nil {
			pause := c.options.RefreshPolicy
			if !known {
				pause = min(pause, unknownPause)
			}
			select {
			case <-ctx.Done():
			case <-time.After(spread(pause)):
				known = c.refresh(ctx)
			}
		}
	})
	for _, l := range c.pollers {
		loops.Go(func() { c.poll(ctx, l) })
	}
	<-ctx.Done()
	c.draining.Store(true)
	loops.Wait()
	c.running.Wait()
	c.breakers.retries.Wait()
}

// refresh reads every queue's length and policy with one request each, and raises the
// visibility timeout when deletes came late (paper row Q16d). Lanes that sleep are skipped.
// known is false when one could not be read: nothing is received from a queue before it was.
func (c *worker) refresh(ctx context.Context) (known bool) {
	known = true
	for _, l := range c.pollers {
		if l.sleeping() {
			l.count(func(s *QueueStats) { s.Length = 0 })
			continue
		}
		if err := refreshPoller(ctx, l); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot refresh the queue's policy", "queue", l.queue.Name(), "error", err)
			known = false
		}
	}
	return known
}

func refreshPoller(ctx context.Context, l *queuePoller) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	state, err := l.queue.Refresh(ctx)
	if err != nil {
		return err
	}
	l.count(func(s *QueueStats) { s.Length = state.Length })
	if state.Length > 0 {
		l.found() // also when every slot is taken for minutes and nothing is received
	}
	return l.queue.Tune(ctx)
}

// unknownPause is the pause before queues are asked again of which one could not be read.
const unknownPause = 3 * time.Second

const refreshTimeout = 10 * time.Second // retries could last longer than an outage
