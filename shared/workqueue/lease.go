package workqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/workitem"
)

// Lease is a received message and the only owner of its pop receipt, its text
// and its deadline. Every update of a message returns a new receipt and kills
// the old one, so renewing, giving back and deleting all pass through here, one
// at a time. It is safe for concurrent use.
//
// A lease ends in one of four ways: Complete, Release or Poison succeeded; or
// [ErrLeaseLost], somebody else has the message (paper row Q17); or
// [ErrReceiptLost], the service's reply was lost and our receipt with it; or its
// deadline passed.
type Lease struct {
	queue        *Queue
	messageID    string
	dequeueCount int64
	inserted     time.Time
	received     time.Time
	visibility   time.Duration

	// deadline is written under mu and read without it: mu is held while a
	// request is under way, and who only looks must not wait for that.
	deadline atomic.Pointer[time.Time]

	mu      sync.Mutex
	item    workitem.Item
	itemErr error // why the text is not an item that we can work on
	text    string
	receipt string
	end     error // nil while the message is ours to settle

	// unanswered is when the first update was sent whose outcome is unknown:
	// zero while the receipt is certainly the newest.
	unanswered time.Time
}

var errSettled = errors.New("lease is settled already")

func newLease(q *Queue, m *azqueue.DequeuedMessage, visibility time.Duration, asked time.Time) *Lease {
	l := &Lease{
		queue: q, messageID: *m.MessageID, dequeueCount: *m.DequeueCount, inserted: *m.InsertionTime,
		received: asked, visibility: visibility,
		text: *m.MessageText, receipt: *m.PopReceipt,
	}
	l.setDeadline(asked.Add(visibility))
	l.item, l.itemErr = workitem.Decode(l.text)
	return l
}

// MessageID is the service's name for this message. Duplicates of an item have
// different ones.
func (l *Lease) MessageID() string { return l.messageID }

// DequeueCount is how often the message was received, this time included.
func (l *Lease) DequeueCount() int64 { return l.dequeueCount }

// Inserted is when the message was sent, by the service's clock.
func (l *Lease) Inserted() time.Time { return l.inserted }

// Received is when we asked for the message.
func (l *Lease) Received() time.Time { return l.received }

// Visibility is how long each receive or renewal hides the message.
func (l *Lease) Visibility() time.Duration { return l.visibility }

// Deadline is until when nobody else can get the message: counted from before
// the request that hid it, so it is never too late. It does not wait for a
// request that is under way.
func (l *Lease) Deadline() time.Time { return *l.deadline.Load() }

func (l *Lease) setDeadline(t time.Time) { l.deadline.Store(&t) }

// Item returns the work item as it is in the message, without a claim check's
// data, and why it cannot be worked on: see [Lease.Open].
func (l *Lease) Item() (workitem.Item, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.item, l.itemErr
}

// Open returns the work item, its data fetched if it is a claim check (paper row
// Q9). An error that is workitem.ErrMalformed is permanent, which includes a
// claim check whose blob is gone or is another subject's; workitem.ErrNewerVersion
// asks to put the item back; anything else may be tried again.
func (l *Lease) Open(ctx context.Context) (workitem.Item, error) {
	item, err := l.Item()
	if err != nil || item.DataRef == "" {
		return item, err
	}
	if !strings.HasPrefix(item.DataRef, l.queue.spec.ClaimPrefix(item.Subject)) { // not ours to read
		return item, fmt.Errorf("%w: claim check %q is not of subject %q", workitem.ErrMalformed, item.DataRef, item.Subject)
	}
	data, err := l.queue.blobs.Get(ctx, ClaimsContainer, item.DataRef)
	switch {
	case errors.Is(err, blobstore.ErrNotFound): // not: the container is missing
		return item, fmt.Errorf("%w: claim check %q is gone", workitem.ErrMalformed, item.DataRef)
	case err != nil:
		return item, fmt.Errorf("claim check %q of %s: %w", item.DataRef, item.ID, err)
	}
	item.Data = data
	return item, nil
}

// Renew hides the message for another [Lease.Visibility] from now. The text is
// sent again, because an update without it would erase it.
//
// A failed request is repeated at once, with the receipt that we have. If that
// one is refused although the lease had not ended, the first request did arrive
// and its reply took our new receipt with it: [ErrReceiptLost]. Then nobody can
// have the message before the extended Deadline; what fits may be finished.
// Other errors leave the lease as it was, and Renew may be called again.
func (l *Lease) Renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.update(ctx, l.text, l.visibility)
	return l.saying("renew", err)
}

// Complete deletes the message: its work is done and committed (paper row Q3).
//
// Success does not prove that nobody else worked on it: after the deadline the
// receipt stays good until somebody else receives the message. [ErrLeaseLost]
// says that somebody did; it is counted for [Queue.Tune] (paper row Q16d).
func (l *Lease) Complete(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saying("complete", l.delete(ctx))
}

// Release gives the message back, to be received again after delay; 0 is at
// once. The function, if not nil, records in the item why: a failure, a drain, a
// snooze. Unknown members of the message are kept (paper row Q6). A message that
// cannot be read goes back as it was.
func (l *Lease) Release(ctx context.Context, delay time.Duration, record func(*workitem.Item)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := l.recorded(record)
	if err != nil {
		return l.saying("release", err)
	}
	for asked := 0; ; {
		var n int
		n, err = l.update(ctx, text, delay)
		asked += n
		switch {
		case err == nil, asked > 1 && l.end != nil && !errors.Is(err, errSettled):
			// Refused after an unanswered try: that try gave it back, and perhaps
			// somebody has it already.
			l.end = errSettled
			return nil
		case l.end != nil, !repeatable(err), sleep(ctx, l.pause()) != nil:
			return l.saying("release", err)
		}
	}
}

// saying adds to an error what was done to which message.
func (l *Lease) saying(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s of queue %s: %w", what, l.messageID, l.queue.spec.Name, err)
}

// recorded returns the message's text with what record changed in the item. A
// message that is full to the brim goes back as it was. The caller holds mu.
func (l *Lease) recorded(record func(*workitem.Item)) (string, error) {
	if record == nil || l.item.ID == "" {
		return l.text, nil
	}
	record(&l.item)
	text, err := encode(l.item)
	if errors.Is(err, ErrTooLarge) {
		return l.text, nil
	}
	return text, err
}

// update sends Update Message, at most three times, and reports how often it was
// sent. The caller holds mu.
func (l *Lease) update(ctx context.Context, text string, hide time.Duration) (asked int, err error) {
	if l.end != nil {
		return 0, l.end
	}
	options := &azqueue.UpdateMessageOptions{VisibilityTimeout: ptr(seconds(hide))}
	for asked < 3 {
		asked++
		start := time.Now()
		callCtx, cancel := context.WithTimeout(azstorage.WithoutRetry(ctx), l.patience())
		var got azqueue.UpdateMessageResponse
		got, err = l.queue.client.UpdateMessage(callCtx, l.messageID, l.receipt, text, options)
		cancel()
		switch {
		case err == nil:
			l.receipt, l.text, l.unanswered = *got.PopReceipt, text, time.Time{}
			l.setDeadline(start.Add(hide))
			return asked, nil
		case refused(err):
			return asked, l.lose(err, start, asked == 1)
		case !repeatable(err) || ctx.Err() != nil:
			l.noteUnanswered(err, start)
			return asked, err
		}
		l.noteUnanswered(err, start)
		if asked < 3 && sleep(ctx, l.pause()) != nil {
			break
		}
	}
	return asked, err
}

// delete sends Delete Message until it is answered or ctx ends. The caller holds mu.
func (l *Lease) delete(ctx context.Context) error {
	if l.end != nil {
		return l.end
	}
	for asked := 1; ; asked++ {
		start := time.Now()
		callCtx, cancel := context.WithTimeout(azstorage.WithoutRetry(ctx), l.patience())
		_, err := l.queue.client.DeleteMessage(callCtx, l.messageID, l.receipt, nil)
		cancel()
		switch {
		case err == nil, asked > 1 && azstorage.HasCode(err, string(queueerror.MessageNotFound)):
			// Gone after an unanswered try: that try deleted it.
			l.end = errSettled
			l.queue.lead.tuner.deleted(time.Since(l.received))
			return nil
		case refused(err):
			return l.lose(err, start, asked == 1)
		case !repeatable(err):
			return err
		}
		if sleep(ctx, l.pause()) != nil {
			return err
		}
	}
}

// lose decides what a refused receipt means. The caller holds mu.
func (l *Lease) lose(cause error, asked time.Time, first bool) error {
	mismatch := azstorage.HasCode(cause, string(queueerror.PopReceiptMismatch))
	if mismatch && !l.unanswered.IsZero() && asked.Before(l.Deadline()) {
		// Nobody else could receive it before the deadline, so the newer receipt
		// is our own, and its reply never came.
		l.end = ErrReceiptLost
		l.setDeadline(l.unanswered.Add(l.visibility))
		return fmt.Errorf("%w: %w", ErrReceiptLost, cause)
	}
	l.end = ErrLeaseLost
	if first && l.unanswered.IsZero() {
		l.queue.lead.tuner.late()
	}
	return fmt.Errorf("%w: %w", ErrLeaseLost, cause)
}

// noteUnanswered remembers that the outcome of an update sent at start is unknown.
func (l *Lease) noteUnanswered(err error, start time.Time) {
	status, _, answered := azstorage.Describe(err)
	definite := answered && status < 500 && status != 408
	if !definite && l.unanswered.IsZero() {
		l.unanswered = start
	}
}

// patience bounds one request, so that a black hole does not eat the lease.
func (l *Lease) patience() time.Duration {
	return min(max(l.visibility/6, 500*time.Millisecond), 10*time.Second)
}

// pause is the wait between two tries of one call.
func (l *Lease) pause() time.Duration {
	return min(max(l.visibility/100, 20*time.Millisecond), 500*time.Millisecond)
}

// refused reports whether the service said that the receipt is not the newest or
// that the message is gone. Its documents and its practice differ in the code,
// so both count (paper row Q17): 400 PopReceiptMismatch, 404 MessageNotFound.
func refused(err error) bool {
	return azstorage.HasCode(err, string(queueerror.PopReceiptMismatch),
		string(queueerror.MessageNotFound), string(queueerror.QueueNotFound))
}
