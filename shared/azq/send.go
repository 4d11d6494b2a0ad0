package azq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"golang.org/x/sync/errgroup"
)

// Payload is the data of an item. Its type is the kind of the work: Kind returns the same
// for every value, lower-case letters, digits and hyphens.
type Payload interface{ Kind() string }

// Outgoing is an item on its way to a queue.
type Outgoing struct {
	Queue string // base name, or that of a lane
	Item  Item

	Delay  time.Duration // the message is hidden for so long: whole seconds, rounded up
	Expiry time.Duration // the service removes it after so long, done or not; 0: never (paper row Q7)
}

// Sender sends an item. See [Options].SendMiddleware.
type Sender func(ctx context.Context, out Outgoing) error

// SendOption changes how [Client.Send] sends.
type SendOption func(*sendChoice)

type sendChoice struct {
	Outgoing
	customer string
}

// ID names the item. Use the same id whenever the same work is asked for again, so that
// duplicates are recognised. Without it the id is random.
func ID(id string) SendOption { return func(s *sendChoice) { s.Item.ID = id } }

// Subject says what the work is about; it is shown to operators and logged.
func Subject(subject string) SendOption { return func(s *sendChoice) { s.Item.Subject = subject } }

// After hides the item for d: work for later.
func After(d time.Duration) SendOption { return func(s *sendChoice) { s.Delay = d } }

// ExpiresAfter lets the service remove the item after d, done or not.
func ExpiresAfter(d time.Duration) SendOption { return func(s *sendChoice) { s.Expiry = d } }

// InQueue chooses among several queues that carry the kind.
func InQueue(name string) SendOption { return func(s *sendChoice) { s.Queue = name } }

// Fair is for a queue with lanes: a customer who sends much delays itself and few others
// (paper row Q5). See [Client.Lane].
func Fair(customer string) SendOption { return func(s *sendChoice) { s.customer = customer } }

// Send sends an item to the queue that carries its kind and returns the item's id. The trace
// of ctx travels with it. After an error of storage the item may have been sent: send it again
// with the same [ID], which is returned, because handlers are idempotent.
func (c *Client) Send(ctx context.Context, data Payload, options ...SendOption) (id string, err error) {
	item, err := NewItem(data.Kind(), "", rand.Text(), data)
	if err != nil {
		return "", err
	}
	item.Namespace, item.Source = c.options.Namespace, "/"+c.options.Namespace
	trace := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, trace)
	item.Traceparent = trace["traceparent"]
	s := sendChoice{Outgoing: Outgoing{Item: item}}
	for _, option := range options {
		option(&s)
	}
	q, err := c.carrier(data.Kind(), s.Queue)
	if err != nil {
		return "", fmt.Errorf("send %s: %w", s.Item.ID, err)
	}
	s.Queue = q.Name()
	if s.customer != "" && q.spec.Laned {
		lane, _ := c.Lane(ctx, s.customer, q.spec.Urgent)
		s.Queue = LaneName(s.Queue, lane)
	}
	return s.Item.ID, c.send(ctx, s.Outgoing)
}

// sendAtOnce is how many requests of [SendMany] are under way at once.
const sendAtOnce = 16

// SendMany sends each of list, several at once. options, if not nil, returns those of one. ids
// has an empty id where the item was not sent, and the error joins why.
func SendMany[T Payload](ctx context.Context, c *Client, list []T, options func(T) []SendOption) (ids []string, err error) {
	ids, errs := make([]string, len(list)), make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(sendAtOnce)
	for i, data := range list {
		group.Go(func() error {
			var chosen []SendOption
			if options != nil {
				chosen = options(data)
			}
			ids[i], errs[i] = c.Send(ctx, data, chosen...)
			return nil
		})
	}
	_ = group.Wait()
	return ids, errors.Join(errs...)
}

// SendItem sends an item that its caller has made to the queue of that name, through the
// middleware: see [Queue.Send].
func (c *Client) SendItem(ctx context.Context, queue string, item Item, delay time.Duration) error {
	return c.send(ctx, Outgoing{Queue: queue, Item: item, Delay: delay})
}

// sendTo is the innermost [Sender].
func (c *Client) sendTo(ctx context.Context, out Outgoing) error {
	q := c.byName[out.Queue]
	if q == nil {
		return fmt.Errorf("send %s: %w: %q", out.Item.ID, ErrNoQueue, out.Queue)
	}
	return q.Send(ctx, out.Item, out.Delay, out.Expiry)
}

// carrier returns the queue of a name, or without a name the first that carries a kind.
func (c *Client) carrier(kind, name string) (*Queue, error) {
	for _, spec := range c.specs {
		if spec.Name == name || name == "" && spec.carries(kind, c.specs) {
			return c.byName[spec.Name], nil
		}
	}
	if name != "" {
		return nil, fmt.Errorf("%w: %q: declare it in Options.Queues", ErrNoQueue, name)
	}
	return nil, fmt.Errorf("no queue carries kind %q: name it in a Spec.Kinds", kind)
}
