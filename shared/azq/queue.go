package azq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Limits of the service and ours below them, in bytes.
// https://learn.microsoft.com/azure/storage/queues/scalability-targets
const (
	maxMessage = 64 << 10 // of base64 text, which is 48 KiB of JSON
	claimAbove = 45_000   // of JSON; the rest is for what later deliveries add to a message

	// MaxBatch is how many messages one Get or Peek can return.
	MaxBatch = 32
)

// ErrTooLarge says that an item does not fit a message even without its data.
var ErrTooLarge = errors.New("work item is larger than a queue message")

// Queue is one queue and the poison queue beside it. It is safe for concurrent use.
type Queue struct {
	spec    Spec
	account *azstore.Account
	client  *azqueue.QueueClient
	blobs   *blobstore.Store
	wake    chan struct{} // holds at most one call of Wake

	poison       *azqueue.QueueClient // <base>-poison
	poisonedRows *tablestore.Table

	doorbells *tablestore.Table
	nextRing  atomic.Pointer[time.Time] // not before; nil at first

	// lead is lane 0, whose policy holds for all lanes; lane 0 points to itself. The fields
	// below lanes are used in the lead only.
	lead   *Queue
	lanes  []*Queue // itself, and of lane 0 the others
	tuner  tuner
	mu     sync.Mutex
	policy Policy    // the newest that was read; zero when none was
	read   time.Time // when one was, last; zero when none was
}

// Open returns the queue of spec. It makes no request.
func OpenQueue(a *azstore.Account, spec Spec) *Queue {
	spec = spec.withDefaults()
	q := &Queue{
		spec: spec, account: a, client: a.Queue(spec.Name), blobs: blobstore.New(a), wake: make(chan struct{}, 1),
		poison: a.Queue(PoisonName(spec.Base())), poisonedRows: tablestore.New(a, PoisonTable),
		doorbells: tablestore.New(a, DoorbellTable),
	}
	q.lead, q.lanes = q, []*Queue{q}
	return q
}

// Name returns the queue's base name.
func (q *Queue) Name() string { return q.spec.Name }

// Spec returns the declaration of the queue.
func (q *Queue) Spec() Spec { return q.spec }

// Send puts an item into the queue, hidden for delay (whole seconds, rounded up). With an
// expiry of 0 the message never expires, so a burst waits until workers have time (paper row Q7).
//
// Safe to repeat. After a lost reply the item may be there twice, under the same id:
// handlers are idempotent (paper rows Q8 and Q13). Data that makes the message larger than
// 45 KB is first written to a claim-check blob, named by the item's subject, kind and id.
// Nothing here deletes that blob, because a duplicate may still need it (paper row Q9).
func (q *Queue) Send(ctx context.Context, item Item, delay, expiry time.Duration) error {
	item, err := q.check(ctx, item)
	var text string
	if err == nil {
		text, err = item.Encode()
	}
	if err == nil {
		_, err = q.enqueue(ctx, q.client, text, delay, expiry)
	}
	if err != nil {
		return fmt.Errorf("send %s to queue %s: %w", item.ID, q.spec.Name, err)
	}
	if delay <= 0 {
		q.Wake()
	}
	q.ring(ctx)
	return nil
}

// Wake lets a consumer in this process look at once, as [Queue.Send] without a delay does.
func (q *Queue) Wake() {
	select {
	case q.wake <- struct{}{}:
	default: // it is to look already
	}
}

// check turns data that is too large for a message into a claim check.
func (q *Queue) check(ctx context.Context, item Item) (Item, error) {
	if raw, err := item.JSON(); err != nil || len(raw) <= claimAbove || item.DataRef != "" || len(item.Data) == 0 {
		return item, err
	}
	item.DataRef = item.Subject + "/" + item.Kind + "/" + item.ID
	err := q.creating(ctx, func() error {
		_, err := q.blobs.Put(ctx, ClaimsContainer, item.DataRef, item.Data, blobstore.Options{ContentType: "application/json"})
		return err
	})
	if err != nil {
		return item, fmt.Errorf("claim check %s: %w", item.DataRef, err)
	}
	return item, nil
}

func (q *Queue) enqueue(ctx context.Context, to *azqueue.QueueClient, text string, delay, expiry time.Duration) (sent azqueue.EnqueueMessagesResponse, err error) {
	if delay > maxVisibility {
		return sent, fmt.Errorf("a delay of %v: the longest is %v", delay, maxVisibility)
	}
	options := &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1)), VisibilityTimeout: new(seconds(delay))}
	if expiry > 0 {
		options.TimeToLive = new(int32(min(math.Ceil(expiry.Seconds()), math.MaxInt32)))
	}
	err = q.creating(ctx, func() error {
		sent, err = to.EnqueueMessage(ctx, text, options)
		return err
	})
	return sent, err
}

// creating makes what a request finds missing, because an operator removed it while we run.
func (q *Queue) creating(ctx context.Context, request func() error) error {
	return q.account.Ensuring(ctx, q.names(), request)
}

// Receive takes at most limit messages (1 to [MaxBatch]) and hides them for
// [Queue.Visibility]. It is not repeated after an error: if only the reply was lost, messages
// are hidden, and another request would hide more (paper row Q13).
func (q *Queue) Receive(ctx context.Context, limit int) ([]*Lease, error) {
	visibility := q.Visibility()
	asked := time.Now() // deadlines are counted from before the request, so that they are never too late
	options := &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(min(max(limit, 1), MaxBatch))), VisibilityTimeout: new(seconds(visibility))}
	var got azqueue.DequeueMessagesResponse
	err := q.creating(ctx, func() (err error) {
		got, err = q.client.DequeueMessages(azstore.WithoutRetry(ctx), options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("receive from queue %s: %w", q.spec.Name, err)
	}
	leases := make([]*Lease, 0, len(got.Messages))
	for _, m := range got.Messages {
		l := &Lease{queue: q, text: *m.MessageText, receipt: *m.PopReceipt, Delivery: Delivery{
			MessageID: *m.MessageID, DequeueCount: *m.DequeueCount, Inserted: q.account.LocalTime(*m.InsertionTime),
			Received: asked, Visibility: visibility,
		}}
		l.deadline.Store(new(asked.Add(visibility)))
		l.item, l.itemErr = DecodeItem(l.text)
		leases = append(leases, l)
	}
	return leases, nil
}

// Peeked is a message seen without taking it.
type Peeked struct {
	MessageID    string
	Item         Item   // empty when Err is set and the message is malformed
	Text         string // the message as it is in the queue
	DequeueCount int64
	Inserted     time.Time
	Expires      time.Time
	Err          error // why the text is not an item for us, see DecodeItem
}

// Peek returns up to limit (1 to [MaxBatch]) visible messages without hiding them.
func (q *Queue) Peek(ctx context.Context, limit int) ([]Peeked, error) {
	got, err := q.client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: new(int32(min(max(limit, 1), MaxBatch)))})
	if err != nil {
		return nil, fmt.Errorf("peek at queue %s: %w", q.spec.Name, err)
	}
	seen := make([]Peeked, 0, len(got.Messages))
	for _, m := range got.Messages {
		p := Peeked{
			MessageID: *m.MessageID, Text: *m.MessageText, DequeueCount: *m.DequeueCount,
			Inserted: q.account.LocalTime(*m.InsertionTime), Expires: q.account.LocalTime(*m.ExpirationTime),
		}
		p.Item, p.Err = DecodeItem(p.Text)
		seen = append(seen, p)
	}
	return seen, nil
}

// Clear removes every message; of lane 0 those of the other lanes, too. On a long queue the
// service removes a part and answers OperationTimedOut, so it is repeated until ctx ends (paper
// row Q10).
func (q *Queue) Clear(ctx context.Context) error {
	for _, lane := range q.lanes {
		_, err := lane.client.ClearMessages(azstore.WithoutRetry(ctx), nil)
		for repeatable(err) && azstore.Sleep(ctx, 200*time.Millisecond) == nil {
			_, err = lane.client.ClearMessages(azstore.WithoutRetry(ctx), nil)
		}
		if err != nil && !IsMissing(err) {
			return fmt.Errorf("clear queue %s: %w", lane.spec.Name, errors.Join(err, context.Cause(ctx)))
		}
	}
	return nil
}

// Create makes the queue and what else it needs, if missing.
func (q *Queue) Create(ctx context.Context) error {
	return q.account.Ensure(ctx, q.names())
}

func (q *Queue) names() azstore.Names {
	queues := []string{q.spec.Name, PoisonName(q.spec.Base())}
	return azstore.Names{Containers: containers, Queues: queues, Tables: tables}
}

// Delete removes the queue and its poison queue, if they exist. For 30 s or more Azure refuses
// to create a queue of the same name.
func (q *Queue) Delete(ctx context.Context) error {
	for _, client := range []*azqueue.QueueClient{q.client, q.poison} {
		if _, err := client.Delete(ctx, nil); err != nil && !IsMissing(err) {
			return fmt.Errorf("delete queue %s: %w", q.spec.Name, err)
		}
	}
	return nil
}

// IsMissing reports whether err says that a queue does not exist.
func IsMissing(err error) bool { return azstore.HasCode(err, queueerror.QueueNotFound) }

// repeatable reports whether a request may succeed when it is sent again.
func repeatable(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && unknown(err)
}

// seconds rounds up, because the service counts whole seconds.
func seconds(d time.Duration) int32 {
	return int32(math.Ceil(min(max(d, 0), maxVisibility).Seconds()))
}
