package azq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// owner is the goroutine of one message, from its delivery until its handler has
// returned and the message is settled. Only it renews and settles the message.
type owner struct {
	c       *worker
	poller  *queuePoller
	lease   *Lease
	job     *RawJob
	handler Handler
	hook    Exhausted // nil: none
	noted   bool      // the message says that this attempt began
	ended   bool      // nothing is left to settle: released early, or not ours any more
}

// work works on one message until it is settled. It calls worked when the work is done and
// only the message is left to be deleted.
func (c *worker) work(draining context.Context, l *queuePoller, lease *Lease, worked func()) {
	o := &owner{c: c, poller: l, lease: lease, job: &RawJob{Delivery: lease.Delivery, Queue: l.queue.Name(), Base: l.queue.Spec().Base()}}
	ctx := context.WithoutCancel(draining) // a drain must not cut off the settling; guard tells the handler
	if draining.Err() != nil {
		o.boundSettling(ctx, func(ctx context.Context) { o.interrupt(ctx, "draining") })
		return
	}
	var cause error
	end := func(error) {}
	err := o.admit(ctx)
	if err == nil {
		o.job.Progress() // the start counts as progress
		c.owners.Store(o, nil)
		defer c.owners.Delete(o)
		ctx, end = o.span(ctx)
		working, cancel := context.WithCancelCause(ctx)
		err = o.guard(draining.Done(), cancel, start(working, func(ctx context.Context) error { return o.handler.Handle(ctx, o.job) }))
		cause = context.Cause(working)
		cancel(nil)
		o.blame("handler", err)
		if err == nil {
			worked()
		}
	}
	o.boundSettling(ctx, func(ctx context.Context) { o.settle(ctx, err, cause) })
	end(err)
}

// admit reads the item and finds its handler. It returns nil if that is to be called, and
// otherwise why not. An item of a kind or version that this worker does not know is for a newer
// one (paper row Q6).
func (o *owner) admit(ctx context.Context) (err error) {
	if o.job.Item, err = o.lease.Item(); err != nil {
		return err
	}
	kind := o.job.Item.Kind
	o.handler, o.hook = o.c.handlers[kind], o.c.hooks[kind]
	if o.handler == nil || o.job.Item.Version > o.c.options.Version {
		return fmt.Errorf("%w: %s", ErrNewerVersion, o.job.Item.Type())
	}
	opening, cancel := context.WithDeadline(ctx, o.stopAt())
	defer cancel()
	if o.job.Item, err = o.lease.Open(opening); err != nil {
		return err
	}
	if o.job.Item.Failures >= o.maxFailures() { // an earlier poisoning was interrupted
		return Permanent(errors.New(cmp.Or(o.job.Item.LastError, "all attempts failed, and the message had no room for why")))
	}
	if unexplained := o.job.Item.Unexplained(o.job.DequeueCount); unexplained >= o.c.options.MaxUnexplained/2 {
		o.boundSettling(ctx, func(ctx context.Context) { err = o.noteStart(ctx, unexplained) })
	}
	return err
}

// noteStart decides about an item whose deliveries end without a record: it kills its workers,
// or replies were lost. So the message says of each attempt from here on that it begins.
func (o *owner) noteStart(ctx context.Context, unexplained int) error {
	most := o.c.options.MaxUnexplained
	start := func(i *Item) { i.Starts++ }
	hasRoom := o.lease.HasRoom(start)
	switch {
	case o.job.Item.Starts >= most-most/2, !hasRoom && unexplained >= most:
		o.poller.count(func(s *QueueStats) { s.CrashLoops++ })
		return Permanent(fmt.Errorf("crash loop: %d deliveries ended without a word", unexplained))
	case !hasRoom:
		return nil
	}
	err := o.lease.Renew(ctx, start)
	if err != nil {
		o.ended = true
		o.poller.count(func(s *QueueStats) { s.RenewErrors++ })
		o.log().Warn("cannot note that an attempt begins: the message comes when its visibility ends", "error", err)
	}
	o.noted = err == nil
	return err
}

// guard waits for the handler and renews the lease meanwhile. It returns when the handler does.
func (o *owner) guard(draining <-chan struct{}, cancel context.CancelCauseFunc, result <-chan error) error {
	renewAt := time.Now().Add(RenewEvery(o.lease.Visibility, rand.Float64()))
	timer := time.NewTimer(0) // reset before each wait
	defer timer.Stop()
	stopped := false // the handler was told to stop: the lease is not renewed any more
	stop := func(cause error) { stopped = true; cancel(cause) }
	for {
		// The next look is when something may be due, or early enough for stoodStill.
		due := slices.MinFunc([]time.Time{time.Now().Add(o.c.options.StallAfter / 4), o.stallAt(), renewAt, o.stopAt()}, time.Time.Compare)
		if !stopped { // when draining, the timer is set for the release
			timer.Reset(time.Until(due))
		}
		select {
		case err := <-result:
			return err
		case <-draining:
			draining = nil
			stop(ErrDraining)
			timer.Reset(o.c.options.StopWithin)
			continue
		case <-timer.C:
		}
		now := time.Now()
		if o.stoodStill(due, now) {
			o.job.Progress() // the handler has StallAfter again
		}
		switch {
		case o.ended:
		case stopped:
			// The drain does not wait for a slow handler. Another worker may begin the work
			// while it runs: only one of them can commit.
			o.boundSettling(context.Background(), func(ctx context.Context) { o.interrupt(ctx, "draining") })
		case !now.Before(o.stopAt()):
			// Before the stall, because a lease that ends costs the item nothing.
			o.poller.count(func(s *QueueStats) { s.LeasesEnding++ })
			stop(ErrLeaseEnding)
		case !now.Before(o.stallAt()):
			o.poller.count(func(s *QueueStats) { s.Stalled++ })
			stop(ErrStalled)
		case !now.Before(renewAt):
			renewAt = o.renew(stop)
		}
	}
}

// stoodStill reports whether a look came so late that the whole process must have stood
// still, and its handler with it: it was stopped, or the machine was suspended. That is no
// stall. The monotonic clock is left out because it stops, too.
func (o *owner) stoodStill(due, now time.Time) bool {
	return now.Round(0).Sub(due.Round(0)) > o.c.options.StallAfter/4
}

// renew renews the lease and returns when to renew it again.
func (o *owner) renew(stop func(error)) time.Time {
	ctx, cancel := context.WithDeadline(context.Background(), o.stopAt())
	defer cancel()
	err := o.lease.Renew(ctx, nil)
	switch {
	case err == nil:
		o.poller.count(func(s *QueueStats) { s.Renewals++ })
		o.job.renewals.Add(1)
		return time.Now().Add(RenewEvery(o.lease.Visibility, rand.Float64()))
	case errors.Is(err, ErrLeaseLost):
		o.poller.count(func(s *QueueStats) { s.StaleRenewals++ })
		o.ended = true
		o.tell(EventLeaseLost, err)
		o.log().Info("lease lost, stopping", "error", err)
		stop(ErrLeaseLost)
		return time.Time{}
	case errors.Is(err, ErrReceiptLost):
		// No other worker gets the message before the deadline, which Renew has
		// corrected. The handler may go on until then.
		o.poller.count(func(s *QueueStats) { s.ReceiptsLost++ })
		o.log().Info("receipt lost, finishing what fits", "error", err)
		return o.lease.Deadline()
	default:
		o.poller.count(func(s *QueueStats) { s.RenewErrors++ })
		o.log().Warn("cannot renew", "error", err)
		return time.Now().Add(spread(o.lease.Visibility / 20))
	}
}

// RenewEvery is a third of the visibility: two renewals may fail. It is a tenth less or more by spread in [0, 1).
func RenewEvery(visibility time.Duration, spread float64) time.Duration {
	return time.Duration(float64(visibility) / 3 * (0.9 + 0.2*spread))
}

// stopAt is when the handler is stopped unless the lease is renewed (paper row Q16c).
func (o *owner) stopAt() time.Time { return o.lease.Deadline().Add(-Margin(o.lease.Visibility)) }

// Margin is the time between the stop of a handler whose lease is not renewed and its end.
func Margin(visibility time.Duration) time.Duration {
	return min(max(5*time.Second, visibility/10), visibility/4)
}

func (o *owner) stallAt() time.Time { return o.job.LastMoved().Add(o.c.options.StallAfter) }

var tracer = otel.Tracer("azq")

// span makes a span of a delivery whose handler is called; end ends it, after the
// message was settled. The first delivery continues the sender's span. A later one has a trace
// of its own with a link to it, because that span ended long ago. Names: docs/tracing.md.
func (o *owner) span(ctx context.Context) (_ context.Context, end func(error)) {
	item := o.job.Item
	asker := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": item.Traceparent})
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "azure_storage_queue"),
		attribute.String("messaging.operation.name", "process"), attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", o.job.Queue), attribute.String("messaging.message.id", o.job.MessageID),
		attribute.String("messaging.message.conversation_id", item.Subject),
		attribute.String("workitem.id", item.ID), attribute.String("workitem.kind", item.Kind),
		attribute.Int64("messaging.message.dequeue_count", o.job.DequeueCount),
	)}
	switch sender := trace.SpanContextFromContext(asker); {
	case !sender.IsValid():
	case o.job.DequeueCount > 1:
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: sender}))
	default:
		ctx = asker
	}
	ctx, span := tracer.Start(ctx, "process "+item.Kind, options...)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
