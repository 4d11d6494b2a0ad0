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

// Lease is a received message with its pop receipt, text and deadline. Every update
// of a message returns a new receipt, and the old one is refused from then on. So
// all requests about the message go through the Lease, one at a time. It is safe for
// concurrent use.
//
// A lease ends when Complete, Release or Poison succeeds; with [ErrLeaseLost], when
// another worker has the message (paper row Q17); with [ErrReceiptLost], when the
// service's reply was lost and the new receipt with it; or when its deadline passes.
type Lease struct {
	queue        *Queue
	messageID    string
	dequeueCount int64
	inserted     time.Time
	received     time.Time
	visibility   time.Duration

	// deadline is written under mu and read without it, because mu is held during
	// requests and readers must not wait for them.
	deadline atomic.Pointer[time.Time]

	mu      sync.Mutex
	item    workitem.Item
	itemErr error // why the text is not an item that we can work on
	text    string
	receipt string
	end     error // nil while the message is ours to settle

	// unanswered is when the first update was sent whose outcome is unknown. It is
	// zero while the receipt is known to be the newest.
	unanswered time.Time
}

var errSettled = errors.New("lease is settled already")

func newLease(q *Queue, m *azqueue.DequeuedMessage, visibility time.Duration, asked time.Time) *Lease {
	l := &Lease{
		queue: q, messageID: *m.MessageID, dequeueCount: *m.DequeueCount, inserted: q.account.LocalTime(*m.InsertionTime),
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

// Inserted is when the message was sent, by this machine's clock: see
// azstorage.Account.LocalTime.
func (l *Lease) Inserted() time.Time { return l.inserted }

// Received is when we asked for the message.
func (l *Lease) Received() time.Time { return l.received }

// Visibility is how long each receive or renewal hides the message.
func (l *Lease) Visibility() time.Duration { return l.visibility }

// Deadline is until when no other worker can get the message. It is counted from before
// the request that hid the message, so it is never too late. The call does not wait
// for a request that is under way.
func (l *Lease) Deadline() time.Time { return *l.deadline.Load() }

func (l *Lease) setDeadline(t time.Time) { l.deadline.Store(&t) }

// Item returns the work item as it is in the message, without a claim check's data.
// The error says why the text is not an item: see [Lease.Open].
func (l *Lease) Item() (workitem.Item, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.item, l.itemErr
}

// Open returns the work item and fetches its data if that is a claim check (paper
// row Q9). Errors: workitem.ErrMalformed is permanent; it includes a claim check
// whose blob is gone or belongs to another subject. workitem.ErrNewerVersion: a
// newer worker can read it. After any other error Open may be called again.
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
	case errors.Is(err, blobstore.ErrNotFound): // a missing container is another error
		return item, fmt.Errorf("%w: claim check %q is gone", workitem.ErrMalformed, item.DataRef)
	case err != nil:
		return item, fmt.Errorf("claim check %q of %s: %w", item.DataRef, item.ID, err)
	}
	item.Data = data
	return item, nil
}

// Renew hides the message for another [Lease.Visibility] from now. The request
// carries the text again, because an update without text would erase it.
//
// A request without an answer is repeated at once with the same receipt. If the
// service refuses that one before the deadline, the first request had arrived and
// the reply with our new receipt was lost: [ErrReceiptLost]. Deadline is then the
// end of that renewal; no other worker can have the message before it. Other errors
// leave the lease as it was, and Renew may be called again.
func (l *Lease) Renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.update(ctx, l.text, l.visibility)
	return l.saying("renew", err)
}

// Note is Renew with a change of the item, which stays in the message if the worker dies.
func (l *Lease) Note(ctx context.Context, change func(*workitem.Item)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := l.recorded(change)
	if err == nil {
		_, err = l.update(ctx, text, l.visibility)
	}
	return l.saying("note", err)
}

// HasRoom reports whether the message has room for a change of the item. One that another
// program sent may be as large as a message can be.
func (l *Lease) HasRoom(change func(*workitem.Item)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	item := l.item
	change(&item)
	item.History, item.LastError = "", ""
	_, err := l.encode(item)
	return !errors.Is(err, ErrTooLarge)
}

// Complete deletes the message, whose work is done and committed (paper row Q3).
//
// Success does not prove that no other worker worked on it: after the deadline the
// receipt stays valid until another worker receives the message. [ErrLeaseLost] says
// that one did. It is counted for [Queue.Tune] (paper row Q16d).
func (l *Lease) Complete(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saying("complete", l.delete(ctx))
}

// Release makes the message visible again after delay; 0 is at once. The function
// record, if not nil, writes the reason into the item: a failure, a release or a
// snooze. Unknown members of the message are kept (paper row Q6). A message that
// is not an item keeps its text.
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
			// Refused after an unanswered request: that request released the message, and
			// perhaps another worker has it already.
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

// recorded returns the message's text with what record changed in the item. When
// the result is too large for a message, the old text stays. The caller holds mu.
func (l *Lease) recorded(record func(*workitem.Item)) (string, error) {
	if record == nil || l.item.ID == "" {
		return l.text, nil
	}
	record(&l.item)
	text, err := l.encode(l.item)
	if errors.Is(err, ErrTooLarge) { // the counters decide what becomes of it, the texts do not
		l.item.History, l.item.LastError = "", ""
		text, err = l.encode(l.item)
	}
	if errors.Is(err, ErrTooLarge) { // see HasRoom
		return l.text, nil
	}
	return text, err
}

// encode returns the item's text as the message had it: base64 is a third longer than JSON
// that came as it is, and may not fit.
func (l *Lease) encode(item workitem.Item) (string, error) {
	if !workitem.IsPlain(l.text) {
		return encode(item)
	}
	text, err := item.JSON()
	if len(text) > maxMessage {
		return "", fmt.Errorf("%w: %d bytes", ErrTooLarge, len(text))
	}
	return string(text), err
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
		case err == nil, asked > 1 && azstorage.HasCode(err, queueerror.MessageNotFound):
			// Gone after an unanswered request: that request deleted it.
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
	mismatch := azstorage.HasCode(cause, queueerror.PopReceiptMismatch)
	if mismatch && !l.unanswered.IsZero() && asked.Before(l.Deadline()) {
		// No other worker could receive the message before the deadline. So the newer
		// receipt is the one whose reply we did not get.
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

// patience bounds one request, so that a request without an answer does not use up
// the time of the lease.
func (l *Lease) patience() time.Duration {
	return min(max(l.visibility/6, 500*time.Millisecond), 10*time.Second)
}

// pause is the wait between two requests of one call.
func (l *Lease) pause() time.Duration {
	return min(max(l.visibility/100, 20*time.Millisecond), 500*time.Millisecond)
}

// refused reports whether the service said that the receipt is not the newest or
// that the message is gone. The service's documents name another code than it
// sends, so both count (paper row Q17): 400 PopReceiptMismatch, 404 MessageNotFound.
func refused(err error) bool {
	return azstorage.HasCode(err, queueerror.PopReceiptMismatch,
		queueerror.MessageNotFound, queueerror.QueueNotFound)
}
