package azq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Handler does the work of one kind. It may be called several times for the same
// item, also by two workers at once, and must be idempotent (paper row Q8).
//
// [ErrLeaseLost] and its neighbours list what its error means, and the causes with which its
// context is cancelled. The slot stays in use until Handle returns.
type Handler interface {
	Handle(ctx context.Context, job *RawJob) error
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, job *RawJob) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *RawJob) error { return f(ctx, job) }

// HandlerOf makes a handler of a function that takes the item's data as a T, for kinds that are
// no types: see [Options].Handlers. Items whose data is no T are poison at once.
func HandlerOf[T any](work func(ctx context.Context, job *RawJob, data T) error) Handler {
	return HandlerFunc(func(ctx context.Context, job *RawJob) error {
		data, err := DecodeData[T](job.Item)
		if err != nil {
			return err
		}
		return work(ctx, job, data)
	})
}

// Exhausted is implemented by handlers that record the failure of the work before its
// item becomes poison. It may be called again and must be idempotent. When it returns
// [Unwanted] the item is deleted instead; with any other error it is delivered again.
type Exhausted interface {
	Exhausted(ctx context.Context, job *RawJob, cause error) error
}

// Job is one delivery of an item whose data is a T.
type Job[T Payload] struct {
	*RawJob
	Data T
}

// Handle registers the work of T's kind. Items whose data is no T are poison at once: a retry
// would not change them. Two handlers of one kind are a mistake that [Client.Check] tells.
func Handle[T Payload](c *Client, work func(ctx context.Context, job *Job[T]) error) {
	HandleWith(c, work, nil)
}

// HandleWith is Handle with a function that is called before an item of the kind becomes
// poison: see [Exhausted].
func HandleWith[T Payload](c *Client, work func(ctx context.Context, job *Job[T]) error, exhausted func(ctx context.Context, job *Job[T], cause error) error) {
	var none T
	kind := none.Kind()
	handler := HandlerOf(func(ctx context.Context, job *RawJob, data T) error { return work(ctx, &Job[T]{job, data}) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handlers[kind] != nil {
		c.mistakes = append(c.mistakes, fmt.Errorf("kind %q has two handlers: remove one", kind))
	}
	c.handlers[kind], c.worker = typedHandler[T]{handler, exhausted}, nil // Check makes another
}

type typedHandler[T Payload] struct {
	Handler
	exhausted func(ctx context.Context, job *Job[T], cause error) error
}

// Exhausted is not told of items whose data is no T.
func (h typedHandler[T]) Exhausted(ctx context.Context, job *RawJob, cause error) error {
	data, err := DecodeData[T](job.Item)
	if err != nil || h.exhausted == nil {
		return nil
	}
	return h.exhausted(ctx, &Job[T]{job, data}, cause)
}

// RawJob is one delivery of an item to a handler.
type RawJob struct {
	Delivery
	Item  Item
	Queue string // without the prefix of the account; of a lane, its own name
	Base  string // the same without the lane: what the queue is called where it is declared

	moved    atomic.Int64 // Unix nanoseconds of the latest Progress
	renewals atomic.Int64
}

// Renewals is how often the lease was renewed so far.
func (j *RawJob) Renewals() int64 { return j.renewals.Load() }

// Progress says that the work moved. The lease is renewed only while it is called at least
// every Options.StallAfter (60 s). A call is cheap enough for every frame.
func (j *RawJob) Progress() { j.moved.Store(time.Now().UnixNano()) }

// Attempt is the number of this attempt, from 1. Interruptions do not count.
func (j *RawJob) Attempt() int { return j.Item.Failures + 1 }

// LastMoved is when Progress was last called.
func (j *RawJob) LastMoved() time.Time { return time.Unix(0, j.moved.Load()) }

// panicError is what a panic in a handler becomes: a failed attempt like others.
type panicError struct {
	Value any
	Stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

var (
	errExited = errors.New("user code ended its goroutine")
	errHangs  = errors.New("a hook did not return when its time was over")
)

// hookGrace is how long after the end of its context a hook may return.
const hookGrace = time.Second

// start calls what a user of the runtime has written, in a goroutine of its own. The channel
// yields exactly one error, also after a panic, which must not end every worker, and Goexit.
func start(ctx context.Context, call func(context.Context) error) <-chan error {
	result := make(chan error, 1)
	go func() {
		err := errExited // stays after runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				err = &panicError{Value: v, Stack: debug.Stack()}
			}
			result <- err
		}()
		err = call(ctx)
	}()
	return result
}

// callHook waits for a hook until its context has ended, and a little longer.
func callHook(ctx context.Context, call func(context.Context) error) error {
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(hookGrace, func() { close(late) }) })
	defer stop()
	select {
	case err := <-start(ctx, call):
		return err
	case <-late:
		return errHangs
	}
}
