// Package azqops is what people do to queues: look, read their poison, send it back, pause, empty.
// [Desk] has the operations, [Desk.Handler] is an HTTP API of them, and the command azq is the
// same for a terminal.
//
//	desk := azqops.New(client)
//	mux.Handle("/ops/", http.StripPrefix("/ops", onlyOperators(desk.Handler())))
package azqops

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

// ErrNoQueue says that a queue is neither declared nor the poison queue of one that is.
var ErrNoQueue = errors.New("there is no such queue")

// Desk operates queues, and the poison queues beside them. It is safe for concurrent use.
type Desk struct {
	client     *azq.Client
	all        []*azq.Queue
	discovered bool // what a Spec says of pool and visibility is not known
}

// New returns a desk for the queues that a program declares. It makes no request.
func New(client *azq.Client) *Desk {
	d := &Desk{client: client}
	for _, spec := range client.Specs() {
		d.all = append(d.all, client.Queue(spec.Name))
		if spec.Lane() == 0 { // the poison of other lanes goes there, too
			// Visibility is that of the queue: it is what a redriven item gets.
			poison := azq.Spec{Name: azq.PoisonName(spec.Name), Visibility: spec.Visibility}
			d.all = append(d.all, azq.OpenQueue(client.Account(), poison))
		}
	}
	return d
}

// Discover returns a desk for the queues that the account has at the moment: see
// [azq.Discover]. What it sends is of the namespace; "" is [azq.DefaultNamespace].
func Discover(ctx context.Context, account *azstore.Account, namespace string) (*Desk, error) {
	specs, err := azq.Discover(ctx, account)
	if err != nil {
		return nil, err
	}
	d := New(azq.Open(account, azq.Options{Queues: specs, Namespace: namespace}))
	d.discovered = true
	return d, nil
}

// Queue is what people are told of a queue.
type Queue struct {
	Name              string  `json:"name"`
	Length            int64   `json:"length"`                     // approximate; messages in flight too
	VisibilitySeconds float64 `json:"visibilitySeconds,omitzero"` // in force, but of a discovered queue the published one only
	Paused            bool    `json:"paused"`
	Poison            bool    `json:"poison"`
	Pool              string  `json:"pool,omitempty"`
}

// Queues returns all queues with their poison queues. One request per queue reads length and
// policy together (paper rows Q4 and Q10). A declared queue that does not exist yet has no messages.
func (d *Desk) Queues(ctx context.Context) ([]Queue, error) {
	const missing = -1
	lengths := make([]int64, len(d.all))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, q := range d.all {
		group.Go(func() error {
			state, err := q.Length(groupCtx)
			lengths[i] = state.Length
			if azq.IsMissing(err) {
				lengths[i], err = missing, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	items := make([]Queue, 0, len(d.all))
	for i, q := range d.all { // only now is the policy of lane 0 read, which holds for all lanes
		policy, visibility, pool := q.Policy(), q.Visibility(), q.Spec().Pool
		if d.discovered {
			visibility = policy.Visibility
		}
		if d.discovered || d.isPoison(q) {
			pool = ""
		}
		if lengths[i] != missing || !d.discovered {
			items = append(items, Queue{
				q.Name(), max(0, lengths[i]), visibility.Seconds(), policy.Paused, d.isPoison(q), pool,
			})
		}
	}
	return items, nil
}

// Queue returns a queue or poison queue by its base name, to pause it for example, or [ErrNoQueue].
func (d *Desk) Queue(name string) (*azq.Queue, error) {
	i := slices.IndexFunc(d.all, func(q *azq.Queue) bool { return q.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoQueue, name)
	}
	return d.all[i], nil
}

// isPoison reports whether a queue is the poison queue of another.
func (d *Desk) isPoison(q *azq.Queue) bool { return d.client.Queue(q.Name()) == nil }

// Message is what people are told of a message. Content is nil when the text cannot be read.
type Message struct {
	ID           string    `json:"id"`
	DequeueCount int64     `json:"dequeueCount"`
	InsertedAt   time.Time `json:"insertedAt,omitzero"`
	*Content
	Error string `json:"error,omitempty"` // why the text is not an item for us
}

// Content is the item of a message.
type Content struct {
	Type      string          `json:"type"`
	Subject   string          `json:"subject"`
	Failures  int             `json:"failures"`
	LastError string          `json:"lastError,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"` // absent when it is in a claim check
}

// Peek returns up to limit (1 to [azq.MaxBatch]) visible messages without taking them.
func (d *Desk) Peek(ctx context.Context, queue string, limit int) ([]Message, error) {
	q, err := d.Queue(queue)
	if err != nil {
		return nil, err
	}
	seen, err := q.Peek(ctx, limit)
	messages := make([]Message, len(seen))
	for i, p := range seen {
		messages[i] = Message{ID: p.MessageID, DequeueCount: p.DequeueCount, InsertedAt: p.Inserted}
		if p.Err != nil {
			messages[i].Error = p.Err.Error()
		}
		if item := p.Item; item.ID != "" {
			messages[i].Content = &Content{item.Type(), item.Subject, item.Failures, item.LastError, item.Data}
		}
	}
	return messages, err
}

// Clear removes every message of a queue, and of its other lanes when it is asked of lane 0.
func (d *Desk) Clear(ctx context.Context, queue string) error {
	q, err := d.Queue(queue)
	if err != nil {
		return err
	}
	if d.isPoison(q) {
		return q.Clear(ctx)
	}
	return d.client.Clear(ctx, queue)
}

// Poison returns a page of poison items and the token of the next: see [azq.Client.ListPoison].
func (d *Desk) Poison(ctx context.Context, limit int, token string) ([]azq.Poisoned, string, error) {
	return d.client.ListPoison(ctx, limit, token)
}

// Redrive sends a poison item to its queue once more: see [azq.Client.Redrive].
func (d *Desk) Redrive(ctx context.Context, id string) error {
	item, err := d.client.Redrive(ctx, id)
	if err != nil && item.Queue != "" && d.client.Queue(item.Queue) == nil {
		return fmt.Errorf("redrive %s: %w: %q", id, ErrNoQueue, item.Queue)
	}
	return err
}

// NewItem is work to be sent.
type NewItem struct {
	Kind         string          `json:"kind"` // names the handler
	ID           string          `json:"id"`   // default: drawn at random
	Subject      string          `json:"subject"`
	Data         json.RawMessage `json:"data"`
	DelaySeconds int             `json:"delaySeconds"` // at most 7 days
}

// payload is data of a kind that is known when it is sent only.
type payload struct {
	json.RawMessage
	kind string
}

// Kind implements azq.Payload.
func (p payload) Kind() string { return p.kind }

// Send puts an item into a queue and returns its id: see [azq.Client.Send].
func (d *Desk) Send(ctx context.Context, queue string, work NewItem) (id string, err error) {
	if d.client.Queue(queue) == nil {
		return "", fmt.Errorf("%w: %q", ErrNoQueue, queue)
	}
	return d.client.Send(ctx, payload{work.Data, work.Kind}, azq.InQueue(queue), azq.ID(cmp.Or(work.ID, rand.Text())),
		azq.Subject(work.Subject), azq.After(time.Duration(work.DelaySeconds)*time.Second))
}
