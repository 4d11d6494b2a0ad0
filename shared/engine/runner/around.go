package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
)

// countUsage counts requests to storage and processor time. The runtime receives and renews
// outside of it, so that is added: one receive for each delivery, which is less when a
// worker receives several messages at once.
func (r *Runner[V, P]) countUsage(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	if r.Hooks.Delivered != nil {
		r.Hooks.Delivered(d.job, requestedAt(d.job))
	}
	ctx, requests := azstore.WithCounter(ctx)
	programs := func() (none Programs) { return none }
	if r.Hooks.Programs != nil {
		ctx, programs = r.Hooks.Programs(ctx, d.work.Progress)
	}
	d.spent = func() engine.Usage {
		counts := requests.Counts()
		counts.Requests[azstore.QueueWrite] += 1 + int(d.job.Renewals())
		return engine.Usage{
			Requests: counts.Requests, Sent: counts.Sent, Received: counts.Received,
			CPU: programs().CPU.Round(time.Millisecond).Seconds(),
		}
	}
	began := time.Now()
	err := next(ctx, d)
	p := programs()
	d.work.Log.DebugContext(ctx, "attempt ended", "took", time.Since(began), "runs", p.Runs, "cpu", p.CPU, "memory", p.Memory, "disk", p.Disk)
	return err
}

// reportAttempt tells the store's observer of an attempt that has no row.
func (r *Runner[V, P]) reportAttempt(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	begun := time.Now()
	err := next(ctx, d)
	observe := r.Store.Observer.Attempt
	if observe == nil {
		return err
	}
	outcome := engine.OutcomeDone
	fate, _ := azq.FateOf(err)
	_, trouble := azq.AsDependencyError(err)
	switch {
	case err == nil:
	case fate == azq.FateSnoozed, trouble, context.Cause(ctx) != nil:
		outcome = engine.OutcomeReleased
	default:
		outcome = engine.OutcomeRetry
	}
	spent := d.spent()
	observe(d.key, d.work.Plan, engine.Attempt{Started: begun, Ended: time.Now(), Outcome: outcome, Usage: &spent})
	return err
}

func (r *Runner[V, P]) makeScratch(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	return d.work.WithScratch(func() error { return next(ctx, d) })
}

// before lets the product do something else with a message.
func (r *Runner[V, P]) before(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	if r.Hooks.Before != nil {
		if done, err := r.Hooks.Before(ctx, d.work); done || err != nil {
			return err
		}
	}
	return next(ctx, d)
}

// blameHost returns the trouble of this host in the place of what a step failed with, if
// there is any: the item does not pay for it. A step on a sick host may say of a good
// file that it is corrupt.
func (r *Runner[V, P]) blameHost(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	err := next(ctx, d)
	_, trouble := azq.AsDependencyError(err)
	if err == nil || trouble || r.Hooks.CheckHost == nil || context.Cause(ctx) != nil || errors.Is(err, engine.ErrGone) {
		return err
	}
	_, sick := os.Stat(d.work.Dir)
	if sick = diskTrouble("look for the directory of the attempt", sick); sick == nil {
		sick = r.Hooks.CheckHost(ctx)
	}
	if sick != nil {
		return fmt.Errorf("%w; the step said: %v", sick, err) //nolint:errorlint // it is no evidence
	}
	return err
}

func (r *Runner[V, P]) watchSubject(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		tick := time.NewTicker(r.Watch)
		defer tick.Stop()
		for { // at once, too: the claim may have been too late to see it
			if _, err := d.claim.Active(ctx); errors.Is(err, engine.ErrGone) {
				cancel(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	err := next(ctx, d)
	if err != nil && errors.Is(context.Cause(ctx), engine.ErrGone) {
		err = engine.ErrGone
	}
	cancel(nil)
	<-watch
	return err
}

// judge decides what an error means: for the row of the step, for a step that waits for the
// rest of its upload, and in the words of the queue for the message.
func (r *Runner[V, P]) judge(ctx context.Context, d *delivery[V, P], next handler[V, P]) error {
	err := next(ctx, d)
	if err != nil && d.claim != nil && !d.ended {
		err = r.writeEnd(ctx, d, err)
	}
	if r.Hooks.Early != nil && d.claim != nil && d.claim.Meta().SourceETag == "" && !d.key.OnRequest() {
		err = r.Hooks.Early.Settle(ctx, d.key, d.job.Item.Snoozes, err)
	}
	switch {
	case errors.Is(err, engine.ErrGone):
		return azq.Unwanted(err.Error())
	case errors.Is(err, engine.ErrDuplicate):
		return nil
	case errors.Is(err, engine.ErrSuperseded) && d.claim == nil: // the next delivery sees how it stands
		return azq.Snooze(time.Second, err.Error())
	case errors.Is(err, engine.ErrSuperseded):
		return azq.ErrLeaseLost
	}
	return err
}

// writeEnd writes how an attempt ended that has no commit, and returns its error.
func (r *Runner[V, P]) writeEnd(ctx context.Context, d *delivery[V, P], err error) error {
	cause := context.Cause(ctx)
	_, trouble := azq.AsDependencyError(err)
	fate, _ := azq.FateOf(err)
	failure, failed := errors.AsType[*engine.Failure](err)
	early := failed && d.work.Growing() // which says nothing about the whole file
	switch {
	case errors.Is(err, engine.ErrSuperseded): // another attempt owns the row
	case errors.Is(err, engine.ErrGone), errors.Is(cause, azq.ErrDraining):
		r.giveBack(ctx, d, engine.OutcomeReleased, nil) // or the row would say "running" for ever
	case failed && !early:
		if err := d.claim.Fail(ctx, failure); err != nil {
			return r.writeEnd(ctx, d, err)
		}
		return r.follow(ctx, d, d.claim.SendOutbox(ctx)) // a part that failed alone may have been the last
	case errors.Is(cause, azq.ErrLeaseLost): // another attempt will own it
	case early, trouble, fate == azq.FateSnoozed, errors.Is(cause, azq.ErrLeaseEnding):
		r.giveBack(ctx, d, engine.OutcomeReleased, err)
	default:
		r.giveBack(ctx, d, engine.OutcomeRetry, err)
	}
	return err
}

// giveBack writes the end of an attempt into the step row, though ctx may have ended.
func (r *Runner[V, P]) giveBack(ctx context.Context, d *delivery[V, P], outcome engine.Outcome, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := d.claim.GiveBack(ctx, outcome, cause); err != nil {
		r.Log.Warn("note the end of an attempt", "error", err)
	}
}

// requestedAt is when the work was asked for: the item says it to the millisecond, the
// service to the second.
func requestedAt(job *azq.RawJob) time.Time {
	if job.Item.Time.IsZero() {
		return job.Inserted
	}
	return job.Item.Time
}

// Exhausted records the failure of a step that is not done again before its item becomes
// poison. Safe to repeat.
func (r *Runner[V, P]) Exhausted(ctx context.Context, job *azq.RawJob, cause error) error {
	key, err := engine.KeyOf(job.Item)
	if err != nil {
		return nil // no step can be recorded
	}
	if !r.Store.StepOf(key).HasRows() { // or the reconciler would send the item again
		return r.Store.GaveUp(ctx, key.ID, key.Step)
	}
	if r.Hooks.Early != nil && !key.OnRequest() {
		if again, err := r.Hooks.Early.Exhausted(ctx, key, requestedAt(job)); again && err == nil {
			return azq.Unwanted("the step is done again with the complete upload")
		} else if err != nil {
			return err
		}
	}
	reason := "failed at every attempt"
	if errors.Is(cause, azq.ErrKilled) {
		reason = fmt.Sprintf("needs more memory than there is: it was killed %d times", job.Item.Kills+1)
	}
	return r.Store.FailStep(ctx, key, &engine.Failure{
		Code:   engine.ProcessingFailed,
		Detail: fmt.Sprintf("the %s step %s; an operator finds the reason in /ops/poison", key.Step, reason),
	})
}
