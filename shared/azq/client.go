package azq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Client sends items, works on them and operates their queues. It is safe for concurrent
// use, and any number of clients in any number of processes may share the queues (paper row Q1).
type Client struct {
	*queues
	options Options
	send    Sender
	events  subscribers
	started atomic.Bool // Run was called

	mu       sync.Mutex
	handlers map[string]Handler // by kind
	mistakes []error            // of registration
	worker   *worker            // of the last Check that found no mistake
}

// Open returns a client of an account's queues. It makes no request: mistakes in the options
// are told by [Client.Check] and [Client.Run], all at once.
func Open(a *azstore.Account, options Options) *Client {
	options = options.withDefaults()
	return newClient(openQueues(a, options), options)
}

// With returns a client with other options on the same queues: another worker in this
// process. Queues, Lanes and Namespace stay as they were. It has the handlers of its own options only.
func (c *Client) With(options Options) *Client {
	options.Queues, options.Lanes, options.Namespace = c.options.Queues, c.options.Lanes, c.options.Namespace
	return newClient(c.queues, options.withDefaults())
}

func newClient(qs *queues, options Options) *Client {
	c := &Client{queues: qs, options: options, handlers: map[string]Handler{}}
	for kind, h := range options.Handlers {
		c.handlers[kind] = h
	}
	c.send = qs.send
	for i := len(options.SendMiddleware) - 1; i >= 0; i-- {
		c.send = options.SendMiddleware[i](c.send)
	}
	return c
}

// register adds the handler of a kind.
func (c *Client) register(kind string, h Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers[kind] != nil {
		c.mistakes = append(c.mistakes, fmt.Errorf("kind %q has two handlers: remove one", kind))
	}
	c.handlers[kind], c.worker = h, nil // Check makes another
}

// Check returns all mistakes of wiring in one error: settings with which some work would
// never be done. It makes no request.
func (c *Client) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	problems := append([]error{}, c.mistakes...)
	problems = append(problems, c.options.check(c.specs, c.handlers)...)
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the queues and their handlers do not fit: %w", err)
	}
	if c.worker == nil {
		c.worker = newWorker(c.queues, c.options, c.handlers, c.events.tell)
	}
	return nil
}

// ErrHandlersRun says that handlers had not returned when Options.DrainTimeout was over. Their
// messages were released Options.StopWithin after the drain began.
var ErrHandlersRun = errors.New("a handler did not stop in time")

var errRunTwice = errors.New("a client runs once: see Client.With")

// Run creates the queues that are missing, and receives and settles messages until ctx ends.
// Then it drains: the handlers' contexts are cancelled with [ErrDraining], and every message is
// visible to other workers within a second. Run returns when the last handler has returned, or
// with [ErrHandlersRun]. Call it once.
func (c *Client) Run(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.started.Swap(true) {
		return errRunTwice
	}
	if !c.ensured.Load() {
		if err := c.Ensure(ctx); repeatable(err) { // what is missing is made when it is first asked for
			c.options.Log.Warn("queues could not be created yet", "error", azstore.Brief(err))
		} else if err != nil && ctx.Err() == nil {
			return err
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); c.worker.run(ctx) }()
	<-ctx.Done()
	var late <-chan time.Time
	if c.options.DrainTimeout > 0 {
		late = time.After(c.options.DrainTimeout)
	}
	select {
	case <-drained:
		return nil
	case <-late:
		return fmt.Errorf("%w: %v after the drain began", ErrHandlersRun, c.options.DrainTimeout)
	}
}

// Stats returns a snapshot of what this client works on; before Check, only its name. It makes
// no request.
func (c *Client) Stats() Stats {
	if w := c.checked(); w != nil {
		return w.stats()
	}
	return Stats{Worker: c.options.Worker, Running: []Running{}}
}

// Ready returns an error that says why the client receives nothing, while a breaker is open.
func (c *Client) Ready() error {
	if w := c.checked(); w != nil {
		return w.breakers.ready()
	}
	return nil
}

func (c *Client) checked() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worker
}
