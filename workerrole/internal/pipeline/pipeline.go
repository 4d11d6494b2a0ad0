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
	"os"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Step is the work that a message asks for. To add one, declare it in workflow.Steps,
// write a file in package step and list it in workerrole/main.go.
type Step interface {
	// Name is that of the declaration.
	Name() string
	// Run writes the step's output and returns what the commit writes. It may be
	// called several times for the same step, also while an earlier call still runs in
	// another worker. An error that is a *video.Failure is permanent, one that
	// workqueue.AsTrouble knows costs the item nothing, any other is a failed attempt.
	// What a step without rows returns is not used.
	Run(ctx context.Context, w *Work) (videostore.Commit, error)
}

// Runner turns a Step into a consumer.Handler.
type Runner struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Step    Step
	Worker  string        // name of this worker role, for the timeline
	Scratch string        // directory for scratch directories
	Room    int64         // bytes that must be free there before a step is taken
	Watch   time.Duration // how often a running step checks whether its video still wants it
	Log     *slog.Logger

	// CheckHost, if set, is asked after a failure: trouble if scratch or ffmpeg do not work.
	CheckHost func(context.Context) error

	// Delivered and Ended, if set, are told of every delivery, and of every attempt of a
	// step without rows; videostore.Observer is told of the other attempts. For metrics.
	Delivered func(*consumer.Job)
	Ended     func(step string, a videostore.Attempt)
}

// Handle runs the step that the message asks for. nil means that the message may be
// deleted; package workqueue lists what other errors mean. Safe to repeat.
func (r *Runner) Handle(ctx context.Context, job *consumer.Job) error {
	if r.Delivered != nil {
		r.Delivered(job)
	}
	key, err := workflow.KeyOf(job.Item)
	if err != nil {
		return workqueue.Permanent(err)
	}
	if !r.hasRows() {
		return r.handlePlain(ctx, key, job)
	}
	if err := Room(r.Scratch, r.Room); err != nil {
		return err
	}
	if p, can := r.Step.(Previewer); can && awaited(key, job) {
		return r.preview(ctx, p, key, job)
	}
	ctx, meter := metered(ctx, job)
	claim, err := r.Videos.ClaimSince(ctx, key, job.MessageID, r.Worker, asked(job))
	switch {
	case errors.Is(err, videostore.ErrDone):
		return r.follow(ctx, claim)
	case errors.Is(err, videostore.ErrGone):
		return workqueue.Unwanted(err.Error())
	case errors.Is(err, videostore.ErrDuplicate):
		return nil
	case errors.Is(err, videostore.ErrSuperseded):
		return workqueue.Snooze(time.Second, err.Error()) // claimed by another worker meanwhile; the next delivery sees how it stands
	case err != nil:
		return err
	}
	claim.Meter = meter
	failpoint.Hit(r.Step.Name() + "/claimed")
	return r.attempt(ctx, claim, job)
}

// asked is when the work was asked for: the item says it to the millisecond, the
// service to the second.
func asked(job *consumer.Job) time.Time {
	if job.Item.Time.IsZero() {
		return job.Inserted
	}
	return job.Item.Time
}

// metered returns a context below which is counted what an attempt spends. The runtime
// receives and renews outside of it, so that is added: one receive for each delivery,
// which is less when a worker receives several messages at once.
func metered(ctx context.Context, job *consumer.Job) (context.Context, videostore.Meter) {
	ctx, requests := azstorage.WithCounter(ctx)
	ctx, used := ffmpeg.WithUsage(ctx)
	return ctx, func() videostore.Spent {
		counts := requests.Counts()
		counts.Requests[azstorage.QueueWrite] += 1 + int(job.Renewals())
		return videostore.Spent{
			Requests: counts.Requests, Sent: counts.Sent, Received: counts.Received,
			CPU: used.CPU().Round(time.Millisecond).Seconds(),
		}
	}
}

func (r *Runner) hasRows() bool {
	step, _ := workflow.Find(r.Step.Name())
	return step.HasRows()
}

// handlePlain runs a step without rows, which needs no claim and no commit.
func (r *Runner) handlePlain(ctx context.Context, key workflow.Key, job *consumer.Job) error {
	work := &Work{
		Claim: &videostore.Claim{Step: videostore.Step{Key: key}}, Progress: job.Progress, Log: r.Log.With("video", key.ID, "step", key.Step),
		Again: job.DequeueCount > 1 && job.Item.Snoozes == 0, blobs: r.Blobs,
	}
	ctx, meter := metered(ctx, job)
	begun := time.Now()
	// A request that storage throttles is slow, but counts as progress.
	_, err := r.Step.Run(azstorage.OnRequest(ctx, job.Progress), work)
	if r.Ended != nil {
		spent := meter()
		r.Ended(key.Step, videostore.Attempt{Started: begun, Ended: time.Now(), Outcome: plainOutcome(ctx, err), Spent: &spent})
	}
	return err
}

// plainOutcome is how an attempt of a step without rows ended, in the words of rows.
func plainOutcome(ctx context.Context, err error) videostore.Outcome {
	_, snoozed := workqueue.AsSnooze(err)
	_, trouble := workqueue.AsTrouble(err)
	switch {
	case err == nil:
		return videostore.OutcomeDone
	case snoozed, trouble, context.Cause(ctx) != nil:
		return videostore.OutcomeReleased
	}
	return videostore.OutcomeRetry
}

// Exhausted records the failure in the step row before the item becomes poison. An item
// that was sent while the upload went on is unwanted instead: the step is done again.
// Safe to repeat.
func (r *Runner) Exhausted(ctx context.Context, job *consumer.Job, cause error) error {
	key, err := workflow.KeyOf(job.Item)
	if err != nil {
		return nil // no step can be recorded
	}
	if !r.hasRows() { // or the reconciler would send the item again
		return r.Videos.GaveUp(ctx, key.ID, key.Step)
	}
	what := "failed at every attempt"
	var killed *consumer.KilledError
	if errors.As(cause, &killed) {
		what = fmt.Sprintf("needs more memory than there is: it was killed %d times", killed.Times)
	}
	err = r.Videos.FailStep(ctx, key, asked(job), &video.Failure{
		Code:   video.ProcessingFailed,
		Detail: fmt.Sprintf("the %s step %s; an operator finds the reason in /ops/poison", key.Step, what),
	})
	if errors.Is(err, videostore.ErrPostponed) {
		return workqueue.Unwanted(err.Error())
	}
	return err
}

// lowPriority reports whether the programs of an item leave the processor to others: of
// all that is not urgent, and of all work of a channel that sent much while others waited.
// The first step is short, and its programs have limits of real time.
func lowPriority(key workflow.Key, v video.Video, job *consumer.Job) bool {
	return !job.Urgent || v.Bulk && key.Declared().Stage != workflow.First
}

// work is what an attempt needs.
func (r *Runner) work(claim *videostore.Claim, job *consumer.Job, dir string) *Work {
	key := claim.Step.Key
	work := &Work{
		Claim: claim, Dir: dir, blobs: r.Blobs, room: r.Room,
		Prefix: key.BlobPrefix(claim.Step.Attempt),
		Log:    r.Log.With("video", key.ID, "step", key.Step, "index", key.Index, "attempt", claim.Step.Attempts),
	}
	work.Progress = func() {
		work.moved.Store(time.Now().UnixNano())
		job.Progress()
	}
	return work
}

func (r *Runner) attempt(ctx context.Context, claim *videostore.Claim, job *consumer.Job) error {
	dir, err := r.makeDir()
	if err != nil {
		return r.failed(ctx, claim, job, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	key := claim.Step.Key
	work := r.work(claim, job, dir)
	if lowPriority(key, claim.Video, job) {
		ctx = ffmpeg.LowPriority(ctx)
	}
	ctx = ffmpeg.WhenStarved(ctx, work.Progress)
	began := time.Now()
	defer func() {
		used := ffmpeg.UsageOf(ctx)
		work.Log.DebugContext(ctx, "attempt ended", "took", time.Since(began), "runs", used.Runs(), "cpu", used.CPU(), "memory", used.Memory(), "disk", used.Disk())
	}()
	// snippet: order-of-writes
	commit, err := r.run(ctx, work)
	if err != nil {
		return r.failed(ctx, claim, job, r.blame(ctx, dir, err))
	}
	failpoint.Hit(r.Step.Name() + "/output")
	commit.Read = work.used()
	commit.Next = append(commit.Next, claim.Following(commit)...)
	// The step row is written after the output, because it makes the output count.
	if err := claim.Commit(ctx, commit); err != nil {
		return r.failed(ctx, claim, job, err)
	}
	failpoint.Hit(r.Step.Name() + "/committed")
	// Only what this commit promised: other rows of the outbox may be being sent by
	// no matter who wrote them.
	if err := claim.Send(ctx); err != nil {
		return err
	}
	return r.after(ctx, claim)
	// end snippet
}

// run calls the step and cancels it when its video is deleted or cancelled.
func (r *Runner) run(ctx context.Context, work *Work) (videostore.Commit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(r.Watch)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := work.CheckActive(ctx); errors.Is(err, videostore.ErrGone) {
					cancel(err)
				}
			}
		}
	}()
	commit, err := r.Step.Run(ctx, work)
	gone := errors.Is(context.Cause(ctx), videostore.ErrGone)
	cancel(nil)
	<-watched
	if err != nil && gone {
		return commit, videostore.ErrGone
	}
	return commit, err
}

// follow does what comes after the commit. A delivery that finds the step done begins
// here, so that a crash after the commit loses nothing.
func (r *Runner) follow(ctx context.Context, claim *videostore.Claim) error {
	if err := r.Videos.Flush(ctx, claim.Step.Key.ID); err != nil {
		return err
	}
	return r.after(ctx, claim)
}

func (r *Runner) after(ctx context.Context, claim *videostore.Claim) error {
	if err := r.Videos.Follow(ctx, claim); err != nil {
		return fmt.Errorf("follow up %s: %w", claim.Step.Key, err)
	}
	failpoint.Hit(r.Step.Name() + "/enqueued")
	return nil
}

// makeDir makes a directory for an attempt.
func (r *Runner) makeDir() (string, error) {
	dir, err := os.MkdirTemp(r.Scratch, r.Step.Name()+"-")
	return dir, diskTrouble("make a directory for an attempt", err)
}

// blame returns the trouble of this host in the place of what a step failed with, if
// there is any: the item does not pay for it. A step on a sick host may say of a good
// film that it is corrupt.
func (r *Runner) blame(ctx context.Context, dir string, err error) error {
	_, trouble := workqueue.AsTrouble(err)
	if trouble || r.CheckHost == nil || context.Cause(ctx) != nil || errors.Is(err, videostore.ErrGone) || errors.As(err, new(*NotYetError)) {
		return err
	}
	_, sick := os.Stat(dir)
	if sick = diskTrouble("look for the directory of the attempt", sick); sick == nil {
		sick = r.CheckHost(ctx)
	}
	if sick != nil {
		return fmt.Errorf("%w; the step said: %v", sick, err) //nolint:errorlint // it is no evidence
	}
	return err
}

// failed records the end of an attempt and returns the error for the consumer.
func (r *Runner) failed(ctx context.Context, claim *videostore.Claim, job *consumer.Job, err error) error {
	var failure *video.Failure
	var missing *NotYetError
	switch {
	case errors.Is(err, videostore.ErrGone):
		r.noteEnd(ctx, nil, claim.Release) // or the row would say "running" for ever
		return workqueue.Unwanted(err.Error())
	case errors.Is(err, videostore.ErrSuperseded):
		return workqueue.ErrLeaseLost // another attempt owns the step row: write nothing
	case errors.As(err, &missing):
		r.noteEnd(ctx, err, claim.Release)
		return r.notYet(ctx, claim.Step.Key, job, missing)
	case errors.As(err, &failure) && claim.Video.Early():
		r.noteEnd(ctx, err, claim.Release)
		return r.postponed(ctx, claim.Step.Key, failure)
	case errors.As(err, &failure):
		if err := claim.Fail(ctx, failure); err != nil {
			return r.failed(ctx, claim, job, err)
		}
		return r.follow(ctx, claim) // a part that failed alone may have been the last
	case errors.Is(context.Cause(ctx), workqueue.ErrLeaseLost):
		return workqueue.ErrLeaseLost
	}
	switch _, trouble := workqueue.AsTrouble(err); {
	case errors.Is(context.Cause(ctx), workqueue.ErrDraining):
		r.noteEnd(ctx, nil, claim.Release)
	case trouble, errors.Is(context.Cause(ctx), workqueue.ErrLeaseEnding):
		r.noteEnd(ctx, err, claim.Release)
	default:
		r.noteEnd(ctx, err, claim.GiveBack)
	}
	return err
}

// notYet settles a step that needs bytes of an upload that is going on. The first step is
// promised again when they are there (videostore.Store.Arrived). Parts were promised
// because theirs should be: they wait a little, longer each time, for nobody knows
// whether the rest ever comes.
func (r *Runner) notYet(ctx context.Context, key workflow.Key, job *consumer.Job, missing *NotYetError) error {
	waits, err := r.awaits(ctx, key, missing)
	switch {
	case err != nil:
		return err
	case !waits: // all of it has come meanwhile
		return workqueue.Snooze(time.Second, missing.Error())
	case key.Declared().Stage == workflow.First:
		return workqueue.Unwanted(missing.Error())
	}
	return workqueue.Snooze(min(firstNotYet<<min(job.Item.Snoozes, 10), lastNotYet), missing.Error())
}

// How long a part of a video waits for bytes of the upload, at first and at most.
const (
	firstNotYet = 2 * time.Second
	lastNotYet  = 2 * time.Minute
)

func (r *Runner) awaits(ctx context.Context, key workflow.Key, missing *NotYetError) (bool, error) {
	if key.Declared().Stage == workflow.First {
		return r.Videos.Want(ctx, key.ID, key.Generation, missing.Parts)
	}
	return r.Videos.StillEarly(ctx, key.ID)
}

// postponed settles a step that failed on an upload that is going on, which is not
// final: it is done again when the upload is complete.
func (r *Runner) postponed(ctx context.Context, key workflow.Key, failure *video.Failure) error {
	waits, err := r.Videos.Postpone(ctx, key.ID)
	switch {
	case err != nil:
		return err
	case !waits:
		return workqueue.Snooze(time.Second, failure.Error())
	}
	return workqueue.Unwanted("waits for the whole upload: " + failure.Error())
}

// noteEnd records in the step row that the attempt has ended. The job's context may
// have ended, so the write has a deadline of its own.
func (r *Runner) noteEnd(ctx context.Context, cause error, note func(context.Context, error) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := note(ctx, cause); err != nil {
		r.Log.Warn("note the end of an attempt", "error", err)
	}
}
