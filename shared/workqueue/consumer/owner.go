package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// owner is the goroutine that owns one message, from its receipt until its
// handler has returned and the message is settled. It alone renews, gives back,
// deletes or poisons, so these never overtake one another.
type owner struct {
	c       *Consumer
	line    *line
	lease   *workqueue.Lease
	job     *Job
	handler Handler
	ended   bool // nothing is left to settle: given back early, or not ours any more
}

// own takes a message from its receipt to its end.
func (c *Consumer) own(draining context.Context, l *line, lease *workqueue.Lease) {
	o := &owner{c: c, line: l, lease: lease, job: &Job{
		Queue: l.queue.Name(), MessageID: lease.MessageID(), DequeueCount: lease.DequeueCount(),
		Inserted: lease.Inserted(), Received: lease.Received(),
	}}
	defer c.breakers.ended(lease)
	ctx := context.WithoutCancel(draining) // the drain is announced, not inflicted
	if draining.Err() != nil {
		o.settleWithin(ctx, func(ctx context.Context) { o.giveBack(ctx, 0, "draining") })
		return
	}
	if !o.admit(ctx) {
		return
	}
	o.job.Progress() // the start counts as progress
	c.owners.Store(o, nil)
	defer c.owners.Delete(o)

	jobCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := o.guard(draining.Done(), cancel, start(jobCtx, o.handler, o.job))
	o.settleWithin(ctx, func(ctx context.Context) { o.settle(ctx, err, context.Cause(jobCtx)) })
}

// admit reads the item and reports whether a handler is to be called. What
// cannot be worked on is settled here.
func (o *owner) admit(ctx context.Context) (ok bool) {
	item, err := o.open(ctx)
	o.job.Item = item
	o.settleWithin(ctx, func(ctx context.Context) {
		unexplained := item.Unexplained(o.lease.DequeueCount())
		dependency, trouble := workqueue.AsTrouble(err)
		switch {
		case errors.Is(err, workitem.ErrNewerVersion), err == nil && o.handler == nil:
			o.putBack(ctx) // a rolling deployment: a newer worker will know (Q6)
		case errors.Is(err, workitem.ErrMalformed):
			o.bury(ctx, err, nil)
		case trouble:
			o.trouble(ctx, dependency, err)
		case err != nil:
			o.giveBack(ctx, o.c.options.retryDelay(1), err.Error())
		case item.Failures >= o.maxFailures():
			o.bury(ctx, errors.New(item.LastError), nil) // an earlier burial was interrupted
		case unexplained >= o.c.options.MaxUnexplained:
			o.line.count.crashLoops.Add(1)
			o.bury(ctx, fmt.Errorf("crash loop: %d deliveries ended without a word", unexplained), nil)
		default:
			ok = true
		}
	})
	return ok
}

// open reads the item and finds its handler, if this worker has one for its step
// and version. It takes a request when the data is a claim check.
func (o *owner) open(ctx context.Context) (workitem.Item, error) {
	item, err := o.lease.Item()
	if err != nil || item.Version > o.c.options.Version {
		return item, err
	}
	if o.handler = o.c.options.Handlers[item.Step]; o.handler == nil {
		return item, nil
	}
	ctx, cancel := context.WithDeadline(ctx, o.stopAt())
	defer cancel()
	return o.lease.Open(ctx)
}

// guard waits for the handler and looks after the lease meanwhile. It returns
// what the handler returned, however late that is: the slot is taken until then.
func (o *owner) guard(draining <-chan struct{}, cancel context.CancelCauseFunc, result <-chan error) error {
	renewAt := time.Now().Add(o.renewEvery())
	timer := time.NewTimer(0) // set before it is waited for
	defer timer.Stop()
	stopped := false // the handler was told to stop: the lease is left alone
	stop := func(cause error) { stopped = true; cancel(cause) }
	for {
		switch {
		case stopped: // the timer rings once more if the worker drains
		case o.c.options.FixedLease:
			timer.Reset(time.Until(o.stallAt()))
		default:
			timer.Reset(time.Until(earliest(renewAt, o.stopAt(), o.stallAt())))
		}
		select {
		case err := <-result:
			return err
		case <-draining:
			draining = nil
			stop(workqueue.ErrDraining)
			timer.Reset(o.c.options.StopWithin)
			continue
		case <-timer.C:
		}
		now := time.Now()
		switch {
		case o.ended:
		case stopped:
			// The handler is slow to stop in a drain. Another worker may begin
			// meanwhile: two at once do no harm, waiting does.
			o.settleWithin(context.Background(), func(ctx context.Context) { o.giveBack(ctx, 0, "draining") })
		case !now.Before(o.stallAt()):
			o.line.count.stalled.Add(1)
			stop(workqueue.ErrStalled)
		case o.c.options.FixedLease:
		case !now.Before(o.stopAt()):
			o.line.count.leasesEnding.Add(1)
			stop(workqueue.ErrLeaseEnding)
		default:
			renewAt = o.renew(stop)
		}
	}
}

// renew renews the lease and returns when to do so again.
func (o *owner) renew(stop func(error)) time.Time {
	ctx, cancel := context.WithDeadline(context.Background(), o.stopAt())
	defer cancel()
	err := o.lease.Renew(ctx)
	switch {
	case err == nil:
		o.line.count.renewals.Add(1)
		return time.Now().Add(o.renewEvery())
	case errors.Is(err, workqueue.ErrLeaseLost):
		o.line.count.staleRenewals.Add(1)
		o.ended = true
		o.log().Info("lease lost, stopping", "error", err)
		stop(workqueue.ErrLeaseLost)
		return time.Time{}
	case errors.Is(err, workqueue.ErrReceiptLost):
		// Nobody else gets the message before the deadline, which Renew has
		// moved as far as is safe: work that fits is finished.
		o.line.count.receiptsLost.Add(1)
		o.log().Info("receipt lost, finishing what fits", "error", err)
		return o.lease.Deadline()
	default:
		o.line.count.renewErrors.Add(1)
		o.log().Warn("cannot renew", "error", err)
		return time.Now().Add(spread(o.lease.Visibility() / 20))
	}
}

// renewEvery is a third of the visibility, so that two renewals may fail.
func (o *owner) renewEvery() time.Duration {
	return time.Duration(float64(o.lease.Visibility()) / 3 * (0.9 + 0.2*rand.Float64()))
}

// stopAt is when work stops unless the lease was renewed (paper row Q16c).
func (o *owner) stopAt() time.Time { return o.lease.Deadline().Add(-margin(o.lease.Visibility())) }

// margin is the time kept between the end of the work and the end of the lease:
// a tenth of the visibility, at least 5 s, but never more than a quarter of a
// very short one.
func margin(visibility time.Duration) time.Duration {
	return min(max(5*time.Second, visibility/10), visibility/4)
}

func (o *owner) stallAt() time.Time { return o.job.lastMoved().Add(o.c.options.StallAfter) }

func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.Before(first) {
			first = t
		}
	}
	return first
}
