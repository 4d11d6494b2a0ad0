package azq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Client sends items, works on them and operates their queues. It is safe for concurrent
// use, and any number of clients in any number of processes may share the queues (paper row Q1).
type Client struct {
	account *azstore.Account
	specs   []Spec // one for each lane
	byName  map[string]*Queue
	lanes   *laneLengths

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
	c := &Client{
		account: a, byName: map[string]*Queue{},
		lanes:   &laneLengths{length: make([]int64, options.Lanes)},
		events:  subscribers{all: map[chan Event]*int64{}},
		options: options, handlers: maps.Collect(maps.All(options.Handlers)),
	}
	for _, spec := range withLanes(options.Queues, options.Lanes) {
		q := OpenQueue(a, spec) // which sets the spec's defaults
		if spec.lane > 0 {
			q.lead = c.byName[spec.Base()].lead
			q.lead.lanes = append(q.lead.lanes, q)
		}
		c.byName[spec.Name] = q
		c.specs = append(c.specs, q.spec)
	}
	c.send = c.sendTo
	for _, around := range slices.Backward(options.SendMiddleware) {
		c.send = around(c.send)
	}
	return c
}

// With returns a client with other options on the same queues: another worker in this
// process. Queues, Lanes and Namespace stay as they were. It has the handlers of its own options only.
func (c *Client) With(options Options) *Client {
	options.Queues, options.Lanes, options.Namespace = c.options.Queues, c.options.Lanes, c.options.Namespace
	other := Open(c.account, options)
	other.specs, other.byName, other.lanes = c.specs, c.byName, c.lanes
	return other
}

// Check returns all mistakes of wiring in one error: settings with which some work would
// never be done. It makes no request.
func (c *Client) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := errors.Join(slices.Concat(c.mistakes, c.options.check(c.specs, c.handlers))...); err != nil {
		return fmt.Errorf("the queues and their handlers do not fit: %w", err)
	}
	if c.worker == nil {
		c.worker = newWorker(c)
	}
	return nil
}

// ErrHandlersRun says that handlers had not returned when Options.DrainTimeout was over. Their
// messages were released Options.StopWithin after the drain began.
var ErrHandlersRun = errors.New("a handler did not stop in time")

// Run creates the queues that are missing, and receives and settles messages until ctx ends.
// Then it drains: the handlers' contexts are cancelled with [ErrDraining], and every message is
// visible to other workers within a second. Run returns when the last handler has returned, or
// with [ErrHandlersRun]. Call it once.
func (c *Client) Run(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.started.Swap(true) {
		return errors.New("a client runs once: see Client.With")
	}
	if err := c.Ensure(ctx); repeatable(err) { // what is missing is made when it is first asked for
		c.options.Log.Warn("queues could not be created yet", "error", azstore.Brief(err))
	} else if err != nil && ctx.Err() == nil {
		return err
	}
	drained := start(ctx, c.worker.run)
	<-ctx.Done()
	var late <-chan time.Time
	if c.options.DrainTimeout > 0 {
		late = time.After(c.options.DrainTimeout)
	}
	select {
	case err := <-drained:
		return err
	case <-late:
		return fmt.Errorf("%w: %v after the drain began", ErrHandlersRun, c.options.DrainTimeout)
	}
}

// Stats returns a snapshot of what this client works on; before Check, only its name. It makes
// no request.
func (c *Client) Stats() Stats { return c.checked().stats() }

// Ready returns an error that says why the client receives nothing, while a breaker is open.
func (c *Client) Ready() error {
	for _, s := range c.checked().breakers.stats() {
		if s.State == BreakerOpen {
			return fmt.Errorf("trouble with %s since %s: %s", s.Dependency, s.Since.UTC().Format(time.RFC3339), s.Reason)
		}
	}
	return nil
}

// checked is the worker of the last Check, or one without queues.
func (c *Client) checked() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.worker, &worker{options: c.options, breakers: &breakers{}})
}

// Containers that the queues use. Names are completed with the stack's prefix.
const (
	ClaimsContainer  = "claims"  // claim checks (paper row Q9)
	ControlContainer = "control" // blob leases: of writers of policies, and of elected duties
)

var (
	containers = []string{ClaimsContainer, ControlContainer}
	tables     = []string{PoisonTable, DoorbellTable}
)

// Ensure creates the queues and what else they need, if missing. Safe to repeat.
func (c *Client) Ensure(ctx context.Context) error {
	var names []string
	for _, spec := range c.specs {
		names = append(names, spec.Name)
		if spec.lane == 0 {
			names = append(names, PoisonName(spec.Name))
		}
	}
	return c.account.Ensure(ctx, azstore.Names{Containers: containers, Queues: names, Tables: tables})
}

// Specs returns the declarations in their order, one for each lane.
func (c *Client) Specs() []Spec { return c.specs }

// Queue returns a queue by its base name, or nil when there is none.
func (c *Client) Queue(name string) *Queue { return c.byName[name] }

// ErrNoQueue says that a client has no queue of that name.
var ErrNoQueue = errors.New("there is no such queue")

// Find returns a queue by its base name, or the poison queue of one, or [ErrNoQueue].
func (c *Client) Find(name string) (*Queue, error) {
	base, _ := strings.CutSuffix(name, PoisonName(""))
	switch lead := c.byName[base]; {
	case c.byName[name] != nil:
		return c.byName[name], nil
	case lead != nil && lead.spec.lane == 0: // the poison of other lanes goes there, too
		// Visibility is that of the queue: it is what a redriven item gets.
		return OpenQueue(c.account, Spec{Name: name, Visibility: lead.spec.Visibility, found: true}), nil
	}
	return nil, fmt.Errorf("%w: %q", ErrNoQueue, name)
}

// Waiting reports, with one request, whether a queue holds a message that could be received.
func (c *Client) Waiting(ctx context.Context, queue string) (bool, error) {
	q, err := c.Find(queue)
	if err != nil {
		return false, err
	}
	seen, err := q.Peek(ctx, 1)
	return len(seen) > 0, err
}

// Discover opens every queue of the account's prefix, in order, for programs that operate queues
// which others declare. The account says what the queues are: a queue "mail-1" without a poison
// queue of its own is a lane of "mail" if that has one. It does not say what is in them or who
// works on them: kinds, pools and timeouts are empty, except a timeout that was published. What
// is sent is of the namespace; "" is [DefaultNamespace].
func Discover(ctx context.Context, a *azstore.Account, namespace string) (*Client, error) {
	there, err := a.ListQueues(ctx)
	if err != nil {
		return nil, err
	}
	exists := func(base string) bool { return slices.Contains(there, a.Name(base)) }
	slices.Sort(there) // a base queue comes before its lanes
	specs := []Spec{}  // not nil, which would mean a queue "default"
	for _, name := range there {
		spec := Spec{Name: strings.TrimPrefix(name, a.Prefix()), found: true}
		if base, isPoison := strings.CutSuffix(spec.Name, PoisonName("")); isPoison && exists(base) {
			continue
		}
		lane := laneOf.FindStringSubmatch(spec.Name)
		if lane != nil && exists(lane[1]) && exists(PoisonName(lane[1])) && !exists(PoisonName(spec.Name)) {
			spec.base = lane[1]
			spec.lane, _ = strconv.Atoi(lane[2]) // the pattern allows digits only
		}
		specs = append(specs, spec)
	}
	return Open(a, Options{Queues: specs, Namespace: namespace}), nil
}

// laneOf splits what [LaneName] makes.
var laneOf = regexp.MustCompile(`^(.+)-([1-9][0-9]{0,3})$`)
