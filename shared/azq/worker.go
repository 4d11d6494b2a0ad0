package azq

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
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

// newWorker makes a worker for the client's queues whose pool has slots.
func newWorker(client *Client) *worker {
	options := client.options
	c := &worker{
		options: options, handlers: map[string]Handler{}, hooks: map[string]Exhausted{},
		tell: client.events.tell, log: options.Log.With("worker", options.Worker),
	}
	for kind, h := range client.handlers {
		c.hooks[kind], _ = h.(Exhausted)
		for _, around := range slices.Backward(options.Middleware) {
			h = around(h)
		}
		c.handlers[kind] = h
	}
	c.breakers = &breakers{options: options, log: c.log, tell: c.tell, all: map[string]*breaker{}}
	for dependency := range options.Probes {
		c.breakers.find(dependency)
	}
	for _, spec := range client.specs {
		slots, _ := options.slots(spec.Pool)
		if slots <= 0 {
			continue
		}
		i := slices.IndexFunc(c.pools, func(p *pool) bool { return p.name == spec.Pool })
		if i < 0 {
			i, c.pools = len(c.pools), append(c.pools, newPool(spec.Pool, slots))
		}
		c.pollers = append(c.pollers, &queuePoller{
			queue: client.byName[spec.Name],
			kinds: carriedBy(spec, client.specs, client.handlers),
			pool:  c.pools[i],
			state: &queueState{weight: float64(spec.Weight), typical: spec.Typical.Seconds(), urgent: spec.Urgent},
		})
	}
	return c
}

// run receives and settles messages until ctx ends, then drains: see [Client.Run].
func (c *worker) run(ctx context.Context) error {
	var loops sync.WaitGroup
	c.breakers.ctx = ctx
	if len(c.pollers) > 0 {
		loops.Go(func() { newWatch(c).run(ctx) })
	}
	for _, l := range c.pollers {
		l.stay(awakeFor)
		loops.Go(func() { c.poll(ctx, l) })
	}
	<-ctx.Done()
	c.draining.Store(true)
	loops.Wait()
	c.running.Wait()
	c.breakers.retries.Wait()
	return nil
}

// refreshIfOld reads the queue's length and policy when what is known of the policy is old.
// All lanes have the policy of lane 0.
func (c *worker) refreshIfOld(ctx context.Context, l *queuePoller) error {
	lead := l.queue.lead
	lead.mu.Lock()
	known := lead.read
	lead.mu.Unlock()
	if time.Since(known) < min(c.options.RefreshPolicy, l.queue.Spec().Visibility/2) {
		return nil
	}
	ctx, cancel := context.WithTimeout(azstore.WithoutRetry(ctx), refreshTimeout)
	defer cancel()
	if lead != l.queue {
		err := lead.creating(ctx, func() error { _, err := lead.Length(ctx); return err })
		if err != nil {
			return err
		}
	}
	_, err := c.refresh(ctx, l)
	return err
}

// refresh reads the queue's length, with lane 0's the policy, and raises the visibility timeout
// when deletes came late (paper row Q16d).
func (c *worker) refresh(ctx context.Context, l *queuePoller) (length int64, _ error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	var state State
	err := l.queue.creating(ctx, func() (err error) {
		state, err = l.queue.Length(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	l.count(func(s *QueueStats) { s.Length = state.Length })
	if err := l.queue.Tune(ctx); err != nil {
		c.log.Warn("cannot change the visibility timeout", "queue", l.queue.Name(), "error", err)
	}
	return state.Length, nil
}

const refreshTimeout = 10 * time.Second // retries could last longer than an outage
