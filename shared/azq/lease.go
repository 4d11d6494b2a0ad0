package azq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
)

// Delivery is what the service says of one delivery of a message.
type Delivery struct {
	MessageID    string    `json:"messageId"`    // duplicates of an item have different ones
	DequeueCount int64     `json:"dequeueCount"` // how often the message was received, this time included
	Inserted     time.Time `json:"insertedAt"`   // when it was sent, by this machine's clock: see azstore.Account.LocalTime
	Received     time.Time `json:"since"`        // when we asked for it

	Visibility time.Duration `json:"visibility"` // how long each receive or renewal hides it, nanoseconds
}

// Lease is a received message with its pop receipt. Every update of a message returns a new
// receipt, and the old one is refused from then on, so all requests about the message go
// through the Lease, one at a time. It is safe for concurrent use.
//
// A lease ends when Complete, Release or Poison succeeds, when its deadline passes, or with
// [ErrLeaseLost] or [ErrReceiptLost].
type Lease struct {
	Delivery

	queue *Queue

	// deadline is written under mu and read without it, because mu is held during
	// requests and readers must not wait for them.
	deadline atomic.Pointer[time.Time]

	mu      sync.Mutex
	item    Item
	itemErr error // why the text is not an item that we can work on
	text    string
	receipt string
	end     error // nil while the message is ours to settle

	// unanswered is when the first update was sent whose outcome is unknown. It is
	// zero while the receipt is known to be the newest.
	unanswered time.Time
}

var errSettled = errors.New("lease is settled already")

// Deadline is until when no other worker can get the message. It is counted from before
// the request that hid the message, so it is never too late. It does not wait for requests.
func (l *Lease) Deadline() time.Time { return *l.deadline.Load() }

// Item returns the work item without a claim check's data, or why it is none: see [Lease.Open].
func (l *Lease) Item() (Item, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.item, l.itemErr
}

// Open returns the work item and fetches its data if that is a claim check (paper
// row Q9). Errors: ErrMalformed, also of a claim check whose blob is gone or belongs
// to another subject; ErrNewerVersion. After any other Open may be called again.
func (l *Lease) Open(ctx context.Context) (Item, error) {
	item, err := l.Item()
	if err != nil || item.DataRef == "" {
		return item, err
	}
	if !strings.HasPrefix(item.DataRef, item.Subject+"/") { // anyone who can send messages could read any blob
		return item, fmt.Errorf("%w: claim check %q is not of subject %q", ErrMalformed, item.DataRef, item.Subject)
	}
	data, err := l.queue.blobs.Get(ctx, ClaimsContainer, item.DataRef)
	switch {
	case errors.Is(err, blobstore.ErrNotFound): // a missing container is another error
		return item, fmt.Errorf("%w: claim check %q is gone", ErrMalformed, item.DataRef)
	case err != nil:
		return item, fmt.Errorf("claim check %q of %s: %w", item.DataRef, item.ID, err)
	}
	item.Data = data
	return item, nil
}

// Renew hides the message for another Visibility from now. The request
// carries the text again, because an update without text would erase it.
//
// A request without an answer is repeated with the same receipt. If the service refuses
// that one before the deadline, the first had arrived and the reply with our new receipt was
// lost: [ErrReceiptLost], and Deadline is the end of that renewal. Other errors leave the lease
// as it was, and Renew may be called again. What record, if not nil, changes in the item stays in
// the message if the worker dies.
func (l *Lease) Renew(ctx context.Context, record func(*Item)) error {
	return l.while("renew", func() error {
		_, err := l.update(ctx, record, l.Visibility, 3)
		return err
	})
}

// HasRoom reports whether the message, perhaps another program's, has room for a change.
func (l *Lease) HasRoom(change func(*Item)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	item := l.item
	change(&item)
	_, err := fitting(item)
	return !errors.Is(err, ErrTooLarge)
}

// Complete deletes the message, whose work is done and committed (paper row Q3).
//
// After the deadline it succeeds as long as no other worker has received the message.
// [ErrLeaseLost] says that one did; it is counted for [Queue.Tune] (paper row Q16d).
func (l *Lease) Complete(ctx context.Context) error {
	return l.while("complete", func() error { return l.delete(ctx) })
}

// Release makes the message visible again after delay; 0 is at once. The function
// record, if not nil, writes the reason into the item (paper row Q6: unknown members stay).
func (l *Lease) Release(ctx context.Context, delay time.Duration, record func(*Item)) error {
	return l.while("release", func() error {
		asked, err := l.update(ctx, record, delay, math.MaxInt)
		if err == nil || asked > 1 && l.end != nil {
			// Refused after an unanswered request: that request released the message, and
			// perhaps another worker has it already.
			l.end, err = errSettled, nil
		}
		return err
	})
}

// while calls act alone if the message is ours to settle, and adds to an error what was done.
func (l *Lease) while(action string, act func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.end
	if err == nil {
		err = act()
	}
	if err != nil {
		return fmt.Errorf("%s %s of queue %s: %w", action, l.MessageID, l.queue.spec.Name, err)
	}
	return nil
}

// recorded returns the message's text with what record changed in the item, or the old text
// when that is too large for a message. The caller holds mu.
func (l *Lease) recorded(record func(*Item)) (string, error) {
	if record == nil || l.item.ID == "" {
		return l.text, nil
	}
	record(&l.item)
	text, err := fitting(l.item)
	if errors.Is(err, ErrTooLarge) { // see HasRoom
		return l.text, nil
	}
	return text, err
}

// fitting is Encode without the texts of failures when they do not fit: the counters decide
// what becomes of an item, the texts do not.
func fitting(item Item) (string, error) {
	text, err := item.Encode()
	if errors.Is(err, ErrTooLarge) {
		item.History, item.LastError = "", ""
		text, err = item.Encode()
	}
	return text, err
}

// request sends a request about the message until it is answered, at most some times, and
// reports how often it was sent. The caller holds mu.
func (l *Lease) request(ctx context.Context, most int, send func(context.Context) error) (asked int, err error) {
	// A request without an answer does not use up the time of the lease.
	patience := min(max(l.Visibility/6, 500*time.Millisecond), 10*time.Second)
	pause := min(max(l.Visibility/100, 20*time.Millisecond), 500*time.Millisecond)
	for {
		asked++
		start := time.Now()
		callCtx, cancel := context.WithTimeout(azstore.WithoutRetry(ctx), patience)
		err = send(callCtx)
		cancel()
		switch {
		case err == nil:
			return asked, nil
		case refused(err):
			return asked, l.lose(err, start, asked == 1)
		case asked == most || !repeatable(err) || azstore.Sleep(ctx, pause) != nil:
			return asked, err
		}
	}
}

// update sends Update Message. The caller holds mu.
func (l *Lease) update(ctx context.Context, record func(*Item), hide time.Duration, most int) (asked int, err error) {
	text, err := l.recorded(record)
	if err != nil {
		return 0, err
	}
	options := &azqueue.UpdateMessageOptions{VisibilityTimeout: new(seconds(hide))}
	return l.request(ctx, most, func(ctx context.Context) error {
		start := time.Now()
		got, err := l.queue.client.UpdateMessage(ctx, l.MessageID, l.receipt, text, options)
		switch {
		case err == nil:
			l.receipt, l.text, l.unanswered = *got.PopReceipt, text, time.Time{}
			l.deadline.Store(new(start.Add(hide)))
		case !refused(err) && unknown(err) && l.unanswered.IsZero():
			l.unanswered = start
		}
		return err
	})
}

// delete sends Delete Message until it is answered or ctx ends. The caller holds mu.
func (l *Lease) delete(ctx context.Context) error {
	asked, err := l.request(ctx, math.MaxInt, func(ctx context.Context) error {
		_, err := l.queue.client.DeleteMessage(ctx, l.MessageID, l.receipt, nil)
		return err
	})
	if err != nil && (asked < 2 || !azstore.HasCode(err, queueerror.MessageNotFound)) {
		return err
	}
	l.end = errSettled // a message that is gone after an unanswered request was deleted by that
	l.queue.lead.tuner.count(1, 0, time.Since(l.Received))
	return nil
}

// lose decides what a refused receipt means. The caller holds mu.
func (l *Lease) lose(cause error, asked time.Time, first bool) error {
	mismatch := azstore.HasCode(cause, queueerror.PopReceiptMismatch)
	if mismatch && !l.unanswered.IsZero() && asked.Before(l.Deadline()) {
		// No other worker could receive the message before the deadline. So the newer
		// receipt is the one whose reply we did not get.
		l.end = ErrReceiptLost
		l.deadline.Store(new(l.unanswered.Add(l.Visibility)))
		return fmt.Errorf("%w: %w", ErrReceiptLost, cause)
	}
	l.end = ErrLeaseLost
	if first && l.unanswered.IsZero() {
		l.queue.lead.tuner.count(0, 1, 0)
	}
	return fmt.Errorf("%w: %w", ErrLeaseLost, cause)
}

// unknown reports whether it is unknown what became of a request, or nothing did: the service
// had too many.
func unknown(err error) bool {
	status, _, answered := azstore.Describe(err)
	return !answered || status >= http.StatusInternalServerError || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// refused reports whether the service said that the receipt is not the newest or
// that the message is gone. The service's documents name another code than it
// sends, so both count (paper row Q17): 400 PopReceiptMismatch, 404 MessageNotFound.
func refused(err error) bool {
	return azstore.HasCode(err, queueerror.PopReceiptMismatch,
		queueerror.MessageNotFound, queueerror.QueueNotFound)
}
