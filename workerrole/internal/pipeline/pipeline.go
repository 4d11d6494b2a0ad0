// Package pipeline runs one step for one message, always in the same order:
//
//	claim the step row → run, which writes the output → commit the step row
//	→ enqueue what comes next → return, and the consumer deletes the message
//
// A crash at any arrow repeats the step, which does no harm (paper rows Q3 and Q8).
// Before the commit no row names the output, whose name belongs to the attempt. After
// the commit the repetition finds the step done and only enqueues what may be missing.
//
// Next: workerrole/internal/step, the steps themselves.
package pipeline

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
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Step is the work that a message asks for. To add one, declare it in workflow.Steps,
// write a file in package step and list it in step.All.
type Step interface {
	// Run writes the step's output and returns what the commit writes. It may be
	// called several times for the same step, also while an earlier call still runs in
	// another worker. An error that is a *engine.Failure is permanent, one that
	// azq.AsDependencyError knows costs the item nothing, any other is a failed attempt.
	// What a step without rows returns is not used.
	Run(ctx context.Context, w *Work) (videostore.Commit, error)
}

// Runner turns a Step into a azq.Handler.
type Runner struct {
	Videos    *videostore.Store
	Blobs     *blobstore.Store
	Early     Early // if set, lets steps run while an upload goes on
	Step      Step
	Worker    string        // name of this worker role, for the timeline
	Scratch   string        // directory for scratch directories
	FreeSpace int64         // bytes that must be free there before a step is taken
	Watch     time.Duration // how often a running step checks whether its video still wants it
	Log       *slog.Logger

	// CheckHost, if set, is asked after a failure: trouble if scratch or ffmpeg do not work.
	CheckHost func(context.Context) error

	// Delivered and Ended, if set, are told of every delivery, and of every attempt of a
	// step without rows; videostore.Observer is told of the other attempts. For metrics.
	Delivered func(job *azq.RawJob, asked time.Time)
	Ended     func(step string, a engine.Attempt)
}

// delivery is a message on its way to its step.
type delivery struct {
	job    *azq.RawJob
	key    engine.Key
	spent  func() engine.Usage // what the attempt has spent so far
	claim  *videostore.Claim   // nil before the claim, and of a step without rows
	ended  bool                // the row says how the attempt ended
	work   *Work
	commit videostore.Commit // what the step returned
}

// A handler does a part of what a delivery needs; a wrapper adds one concern to the handler
// that is next.
type (
	handler func(ctx context.Context, d *delivery) error
	wrapper func(ctx context.Context, d *delivery, next handler) error
)

// Handle runs the step that the message asks for. nil means that the message may be
// deleted; package azq lists what other errors mean. Safe to repeat.
func (r *Runner) Handle(ctx context.Context, job *azq.RawJob) error {
	key, err := engine.KeyOf(job.Item)
	if err != nil {
		return azq.Permanent(err)
	}
	d := &delivery{job: job, key: key, work: r.newWork(key, job)}
	if !workflow.Declaration.StepOf(key).HasRows() { // such a step writes what may be written any number of times
		// Every request to storage is progress, also one that is throttled.
		return wrap(r.run, r.countUsage, r.reportAttempt)(azstore.OnRequest(ctx, job.Progress), d)
	}
	return wrap(r.run,
		r.countUsage,    // tells the metrics of the delivery, and counts what the attempt spends
		r.requireSpace,  // takes no step while the disk is nearly full
		r.judge,         // says what an error means for the step's row and for the message
		r.previewSeek,   // makes a preview of a part that a viewer waits for, and sends the part on
		r.orderOfWrites, // claim, run, commit, send
		r.makeScratch,   // gives the attempt a directory
		r.blameHost,     // looks for trouble of this machine behind an error
		r.watchVideo,    // ends the attempt when its video is deleted
	)(ctx, d)
}

// wrap puts wrappers around a handler, the first one outermost.
func wrap(h handler, around ...wrapper) handler {
	for _, w := range slices.Backward(around) {
		next := h
		h = func(ctx context.Context, d *delivery) error { return w(ctx, d, next) }
	}
	return h
}

// orderOfWrites runs an attempt at a step: see the comment of the package.
func (r *Runner) orderOfWrites(ctx context.Context, d *delivery, run handler) (err error) {
	// snippet: order-of-writes
	d.claim, err = r.Videos.Claim(ctx, d.key, d.job.MessageID, r.Worker, requestedAt(d.job))
	if errors.Is(err, engine.ErrDone) { // by an earlier delivery, which may have sent nothing
		d.ended = true
		return r.follow(ctx, d, r.Videos.Flush(ctx, d.key.ID))
	}
	if err != nil {
		return err
	}
	failpoint.Hit(d.key.Step + "/claimed")
	d.claim.Usage = d.spent
	d.work.claimed(d.claim)
	if err := run(ctx, d); err != nil {
		return err
	}
	failpoint.Hit(d.key.Step + "/output")
	// The step row is written after the output, because it makes the output count.
	if err := d.claim.Commit(ctx, d.commit); err != nil {
		return err
	}
	d.ended = true
	failpoint.Hit(d.key.Step + "/committed")
	// Only what this commit promised: other rows of the outbox may be being sent.
	return r.follow(ctx, d, d.claim.SendOutbox(ctx))
	// end snippet
}

func (r *Runner) run(ctx context.Context, d *delivery) (err error) {
	ffmpeg.RunsOf(ctx).Nice = niceness(d.work.Video, d.job) // programs give way to more urgent ones
	if d.commit, err = r.Step.Run(ctx, d.work); err != nil {
		return err
	}
	return d.work.storeFacts(ctx, &d.commit)
}

// follow does what comes after the messages of a commit, unless they could not be sent.
func (r *Runner) follow(ctx context.Context, d *delivery, err error) error {
	if err != nil {
		return err
	}
	if err := d.claim.Follow(ctx); err != nil {
		return fmt.Errorf("follow up %s: %w", d.key, err)
	}
	failpoint.Hit(d.key.Step + "/enqueued")
	return nil
}
