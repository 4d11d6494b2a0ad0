// Package runner runs one step for one message, always in the same order:
//
//	claim the step row → run, which writes the output → commit the step row
//	→ enqueue what comes next → return, and the consumer deletes the message
//
// A crash at any arrow repeats the step, which does no harm (paper rows Q3 and Q8).
// Before the commit no row names the output, whose name belongs to the attempt. After
// the commit the repetition finds the step done and only enqueues what may be missing.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
)

// Step is the work that a message asks for.
type Step[V, P any] interface {
	// Run writes the step's output and returns what the commit writes. It may be
	// called several times for the same step, also while an earlier call still runs in
	// another worker. An error that is an *engine.Failure is permanent, one that
	// azq.AsDependencyError knows costs the item nothing, any other is a failed attempt.
	// What a step without rows returns is not used.
	Run(ctx context.Context, w *Work[V, P]) (engine.Commit[V, P], error)
}

// StepFunc is a function that is a [Step].
type StepFunc[V, P any] func(ctx context.Context, w *Work[V, P]) (engine.Commit[V, P], error)

// Run implements Step.
func (f StepFunc[V, P]) Run(ctx context.Context, w *Work[V, P]) (engine.Commit[V, P], error) {
	return f(ctx, w)
}

// Runner turns a Step into an azq.Handler.
type Runner[V, P any] struct {
	Store     *engine.Store[V, P]
	Blobs     *blobstore.Store
	Step      Step[V, P]
	Worker    string        // name of this worker role, for the timeline
	Scratch   string        // directory for scratch directories
	FreeSpace int64         // bytes that must be free there when a step begins
	Watch     time.Duration // how often a running step checks whether its subject still wants it
	Log       *slog.Logger
	Hooks     Hooks[V, P]
}

// Hooks are what a product adds to a runner. Each may be nil.
type Hooks[V, P any] struct {
	// Early, if set, lets steps run while an upload goes on.
	Early Early
	// Before may do something else with a message than run its step, and reports whether it did.
	// Nothing is claimed.
	Before func(ctx context.Context, w *Work[V, P]) (done bool, err error)
	// Programs counts what the programs take that an attempt starts. They call
	// moved whenever they make progress.
	Programs func(ctx context.Context, moved func()) (context.Context, func() Programs)
	// CheckHost is asked after a failure: trouble if scratch or the programs do not work.
	CheckHost func(context.Context) error
	// At is told of points in the order of writes, such as "encode/claimed": tests stop there.
	At func(point string)

	// Delivered is told of every delivery, for metrics.
	Delivered func(job *azq.RawJob, asked time.Time)
}

// Programs is what the programs of an attempt took: of memory and disk the most at once, in bytes.
type Programs struct {
	Runs         int
	CPU          time.Duration
	Memory, Disk int64
}

// Early decides about steps that run on an upload that is still going on. Without it, no step
// is promised before an upload is complete. Safe to repeat.
type Early interface {
	// Settle returns what the message of a step is settled with that ended with err.
	Settle(ctx context.Context, key engine.Key, snoozes int, err error) error
	// Exhausted reports whether a step whose attempts are used up is done again all the same.
	Exhausted(ctx context.Context, key engine.Key, asked time.Time) (again bool, err error)
}

// delivery is a message on its way to its step.
type delivery[V, P any] struct {
	job    *azq.RawJob
	key    engine.Key
	spent  func() engine.Usage // what the attempt has spent so far
	claim  *engine.Claim[V, P] // nil before the claim, and of a step without rows
	ended  bool                // the row says how the attempt ended
	work   *Work[V, P]
	commit engine.Commit[V, P] // what the step returned
}

// A handler does a part of what a delivery needs; a wrapper adds one concern to the handler
// that is next.
type (
	handler[V, P any] func(ctx context.Context, d *delivery[V, P]) error
	wrapper[V, P any] func(ctx context.Context, d *delivery[V, P], next handler[V, P]) error
)

// Handle runs the step that the message asks for. nil means that the message may be
// deleted; package azq lists what other errors mean. Safe to repeat.
func (r *Runner[V, P]) Handle(ctx context.Context, job *azq.RawJob) error {
	key, err := engine.KeyOf(job.Item)
	if err != nil {
		return azq.Permanent(err)
	}
	d := &delivery[V, P]{job: job, key: key, work: r.newWork(key, job)}
	if !r.Store.StepOf(key).HasRows() { // such a step writes what may be written any number of times
		// Every request to storage is progress, also one that is throttled.
		return wrap(r.run, r.countUsage, r.reportAttempt)(azstore.OnRequest(ctx, job.Progress), d)
	}
	return wrap(r.run,
		r.countUsage,    // tells the metrics of the delivery, and counts what the attempt spends
		r.judge,         // says what an error means for the step's row and for the message
		r.before,        // lets the product do something else with the message
		r.orderOfWrites, // claim, run, commit, send
		r.makeScratch,   // gives the attempt a directory, unless the disk is nearly full
		r.blameHost,     // looks for trouble of this machine behind an error
		r.watchSubject,  // ends the attempt when its subject is deleted
	)(ctx, d)
}

// wrap puts wrappers around a handler, the first one outermost.
func wrap[V, P any](h handler[V, P], around ...wrapper[V, P]) handler[V, P] {
	for _, w := range slices.Backward(around) {
		next := h
		h = func(ctx context.Context, d *delivery[V, P]) error { return w(ctx, d, next) }
	}
	return h
}

// orderOfWrites runs an attempt at a step: see the comment of the package.
func (r *Runner[V, P]) orderOfWrites(ctx context.Context, d *delivery[V, P], run handler[V, P]) (err error) {
	// snippet: order-of-writes
	d.claim, err = r.Store.Claim(ctx, d.key, d.job.MessageID, r.Worker, requestedAt(d.job))
	if errors.Is(err, engine.ErrDone) { // by an earlier delivery, which may have sent nothing
		d.ended = true
		return r.follow(ctx, d, r.Store.Flush(ctx, d.key.ID))
	}
	if err != nil {
		return err
	}
	r.at(d.key, "claimed")
	d.claim.Usage = d.spent
	d.work.claimed(d.claim)
	if err := run(ctx, d); err != nil {
		return err
	}
	r.at(d.key, "output")
	// The step row is written after the output, because it makes the output count.
	if err := d.claim.Commit(ctx, d.commit); err != nil {
		return err
	}
	d.ended = true
	r.at(d.key, "committed")
	// Only what this commit promised: other rows of the outbox may be being sent.
	return r.follow(ctx, d, d.claim.SendOutbox(ctx))
	// end snippet
}

func (r *Runner[V, P]) at(key engine.Key, point string) {
	if r.Hooks.At != nil {
		r.Hooks.At(key.Step + "/" + point)
	}
}

func (r *Runner[V, P]) run(ctx context.Context, d *delivery[V, P]) (err error) {
	if d.commit, err = r.Step.Run(ctx, d.work); err != nil {
		return err
	}
	return storeFacts(ctx, d.work, &d.commit)
}

// follow does what comes after the messages of a commit, unless they could not be sent.
func (r *Runner[V, P]) follow(ctx context.Context, d *delivery[V, P], err error) error {
	if err != nil {
		return err
	}
	if err := d.claim.Follow(ctx); err != nil {
		return fmt.Errorf("follow up %s: %w", d.key, err)
	}
	r.at(d.key, "enqueued")
	return nil
}
