package azq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// settleWithin bounds the requests that settle a message.
const settleWithin = 15 * time.Second

// boundSettling gives the requests of f a deadline of their own, because the handler's
// context may have ended and the message must still be settled.
func (o *owner) boundSettling(ctx context.Context, f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	f(ctx)
}

// settle settles the message by what the handler returned and by why it was cancelled, if it was.
func (o *owner) settle(ctx context.Context, err, cause error) {
	if o.ended {
		return
	}
	fate, delay := FateOf(err)
	dependency, trouble := AsDependencyError(err)
	stalled := errors.Is(cause, ErrStalled)
	if stalled && err != nil && !trouble {
		// The handler may hang because a dependency does.
		if found, e := o.c.breakers.check(ctx, slices.Sorted(maps.Keys(o.c.options.Probes))); e != nil {
			dependency, trouble, err = found, true, fmt.Errorf("%w; meanwhile: %w", cause, e)
		}
	}
	switch {
	case err == nil:
		o.complete(ctx, EventDone, nil, func(s *QueueStats) { s.Completed++; s.Worked += time.Since(o.job.Received) })
	case stalled && trouble:
		o.releaseForDependency(ctx, dependency, err)
	case stalled:
		o.fail(ctx, fmt.Errorf("%w for %v", cause, o.c.options.StallAfter), 0)
	case cause != nil:
		// We interrupted the handler, and its error may be a consequence of that: the
		// output of a killed child process looks like a broken file.
		o.interrupt(ctx, cause.Error())
	case errors.Is(err, ErrLeaseLost):
		// Another delivery of the item owns the work (paper row Q17). If the message is still
		// ours it is delivered once more, and its handler finds the work done.
		o.poller.count(func(s *QueueStats) { s.Superseded++ })
		o.tell(EventLeaseLost, err)
	case errors.Is(err, ErrNewerVersion):
		o.snooze(ctx, spread(o.c.options.DeferPause), err, func(s *QueueStats) { s.PutBack++ })
	case fate == FateUnwanted:
		o.unwanted(ctx, err)
	case fate == FateSnoozed:
		o.snooze(ctx, delay, err, func(s *QueueStats) { s.Snoozed++ })
	case fate == FatePoison, errors.Is(err, ErrMalformed):
		o.moveToPoison(ctx, err)
	case trouble:
		o.releaseForDependency(ctx, dependency, err)
	default:
		o.fail(ctx, err, delay)
	}
}

// complete deletes the message of work that is committed or unwanted. If it cannot be
// deleted, its next delivery finds that.
func (o *owner) complete(ctx context.Context, as EventType, reason error, counted func(*QueueStats)) {
	if o.settled(as, reason, o.lease.Complete(ctx), counted, staleDelete) {
		o.c.breakers.succeeded(o.job.Item.Kind)
	}
}

func (o *owner) unwanted(ctx context.Context, why error) {
	o.log().Warn("deleted without being done", "why", why)
	o.complete(ctx, EventUnwanted, why, func(s *QueueStats) { s.Unwanted++ })
}

func staleDelete(s *QueueStats) { s.StaleDeletes++ }

// settled counts and tells how a request that settles the message has ended, and reports
// whether it succeeded.
func (o *owner) settled(as EventType, reason, err error, counted, stale func(*QueueStats)) bool {
	switch {
	case err == nil:
		o.poller.count(counted)
		o.tell(as, reason)
	case errors.Is(err, ErrLeaseLost):
		o.poller.count(stale)
		o.tell(EventLeaseLost, err)
		o.log().Info("not settled: the message had become visible to others", "wanted", as)
	default:
		o.poller.count(func(s *QueueStats) { s.SettleErrors++ })
		o.log().Warn("not settled: the message comes again when its visibility ends", "wanted", as, "error", err)
	}
	return err == nil
}

// fail records a failed attempt and retries the item, after the delay that its handler asked
// for, or poisons it when that was its last attempt.
func (o *owner) fail(ctx context.Context, err error, delay time.Duration) {
	failures := o.job.Item.Failures + 1
	o.poller.count(func(s *QueueStats) { s.Failed++ })
	if failures >= o.maxFailures() {
		o.moveToPoison(ctx, err)
		return
	}
	if !o.lease.HasRoom(o.failure(err)) {
		o.moveToPoison(ctx, fmt.Errorf("no second attempt, for the message has no room to count it: %w", err))
		return
	}
	delay = cmp.Or(delay, o.c.options.retryDelay(failures))
	o.log().Warn("attempt failed", "failures", failures, "retryIn", delay, "error", err)
	o.release(ctx, EventRetried, err, delay, o.failure(err))
}

// moveToPoison makes the item poison. First its handler records that the work failed: with the
// other order a crash between the two could leave no record.
func (o *owner) moveToPoison(ctx context.Context, cause error) {
	if time.Until(o.lease.Deadline()) < o.lease.Visibility/2 {
		_ = o.lease.Renew(ctx, nil) // several requests follow; without the renewal they may still succeed
	}
	if o.hook != nil {
		half, cancel := context.WithTimeout(ctx, settleWithin/2) // then the item can still be put back
		err := callHook(half, func(ctx context.Context) error { return o.hook.Exhausted(ctx, o.job, cause) })
		cancel()
		o.blame("Exhausted", err)
		if fate, _ := FateOf(err); fate == FateUnwanted {
			o.unwanted(ctx, err)
			return
		}
		if err != nil {
			o.log().Error("cannot record the failure, putting the item back", "cause", cause, "error", err)
			if dependency, trouble := AsDependencyError(err); trouble {
				o.c.breakers.failed(dependency, o.job.Item.Kind, err)
			}
			o.release(ctx, EventRetried, err, o.c.options.retryDelay(o.job.Item.Failures+1), o.failure(cause))
			return
		}
	}
	err := o.lease.Poison(ctx, cause.Error(), o.failure(cause))
	if o.settled(EventPoisoned, cause, err, func(s *QueueStats) { s.Poisoned++ }, staleDelete) {
		o.log().Error("item is poison", "cause", cause)
	}
}

// blame counts and logs what the code of the user must not do.
func (o *owner) blame(name string, err error) {
	var panicked *panicError
	switch {
	case errors.As(err, &panicked):
		o.poller.count(func(s *QueueStats) { s.Panics++ })
		o.log().Error("panic", "in", name, "panic", panicked.Value, "stack", string(panicked.Stack))
	case errors.Is(err, errHangs):
		o.poller.count(func(s *QueueStats) { s.HooksHung++ })
		o.log().Error("a hook hangs", "hook", name)
	}
}

// interrupt releases the message: visible to others at once. It costs the item no
// attempt, because the interruption is not its fault.
func (o *owner) interrupt(ctx context.Context, reason string) {
	o.ended = true
	o.poller.count(func(s *QueueStats) { s.Released++ })
	o.log().Info("given back", "why", reason)
	o.release(ctx, EventReleased, errors.New(reason), 0, func(i *Item) { i.Releases++ })
}

// maxKills is how many times the child processes of one item may be killed from outside, or for
// taking too long, before the item is poison: it needs more memory or time than there is.
const maxKills = 8

const often = 50 // releases: an item that meets trouble with so many is logged as an error

// releaseForDependency releases the item at no cost. Except after killed child processes it
// has no bound: a count cannot tell an item that causes the trouble from a long outage.
func (o *owner) releaseForDependency(ctx context.Context, dependency string, err error) {
	o.poller.count(func(s *QueueStats) { s.Troubled++ })
	o.c.breakers.failed(dependency, o.job.Item.Kind, err)
	item := o.job.Item
	// The first are short, so that a worker without that trouble gets it soon.
	delay := grow(o.c.options.DependencyPause, o.c.options.MaxDependencyPause, item.Releases+1)
	if dependency == Killed {
		if kills := item.Kills + 1; kills >= maxKills {
			o.moveToPoison(ctx, fmt.Errorf("%w %d times, from outside or because they took too long: "+
				"it probably needs more memory or time than workers have: %v", ErrKilled, kills, err))
			return
		}
		delay = o.c.options.retryDelay(item.Kills + 1) // longer: perhaps another process uses the memory
	}
	level := slog.LevelWarn
	if item.Releases+1 >= often {
		o.poller.count(func(s *QueueStats) { s.TroubledOften++ })
		level = slog.LevelError
	}
	o.log().Log(ctx, level, "trouble, given back", "dependency", dependency, "releases", item.Releases+1, "retryIn", delay, "error", err)
	o.release(ctx, EventReleased, err, delay, func(i *Item) {
		i.Releases++
		if dependency == Killed {
			i.Kills++
		}
	})
}

// snooze hides the message for delay, because its handler asked for it or a newer worker
// has to do it.
func (o *owner) snooze(ctx context.Context, delay time.Duration, reason error, counted func(*QueueStats)) {
	o.poller.count(counted)
	o.log().Debug("snoozed", "for", delay, "why", reason)
	o.release(ctx, EventSnoozed, reason, delay, func(i *Item) { i.Snoozes++ })
}

// release puts the message back with a record of why, so that the attempt ends with a word, and
// wakes other workers, one of which may succeed.
func (o *owner) release(ctx context.Context, as EventType, reason error, delay time.Duration, record func(*Item)) {
	err := o.lease.Release(ctx, delay, func(i *Item) {
		record(i)
		if o.noted {
			i.Starts--
		}
	})
	if o.settled(as, reason, err, func(*QueueStats) {}, func(s *QueueStats) { s.StaleReleases++ }) && delay < ringAwake {
		o.poller.queue.ring(ctx)
	}
}

// failure returns a function that writes err into the item's history, unless the last attempt
// that it had is there already.
func (o *owner) failure(err error) func(*Item) {
	return func(i *Item) {
		if i.Failures < o.maxFailures() {
			i.Fail(time.Now(), o.c.options.Worker, err)
		}
	}
}

func (o *owner) tell(as EventType, reason error) {
	o.c.tell(Event{Type: as, Queue: o.job.Queue, Item: o.job.Item, Err: reason})
}

func (o *owner) maxFailures() int { return o.poller.queue.Spec().MaxFailures }

func (o *owner) log() *slog.Logger {
	return o.c.log.With("queue", o.job.Queue, "kind", o.job.Item.Kind, "item", o.job.Item.ID,
		"subject", o.job.Item.Subject, "message", o.job.MessageID, "dequeueCount", o.job.DequeueCount)
}
