package videostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Why a step cannot be worked on, or can no longer be committed.
var (
	// ErrDone: an earlier delivery committed the step. Repeat what comes after the
	// commit, then delete the message.
	ErrDone = errors.New("step is done")
	// ErrGone: the video is deleted, cancelled, failed or in another
	// generation. Delete the message.
	ErrGone = errors.New("step is not wanted any more")
	// ErrDuplicate: another message carries this step and its worker runs it.
	// Delete this one.
	ErrDuplicate = errors.New("step is carried by another message")
	// ErrSuperseded: another attempt owns the row. Write nothing, delete
	// nothing (paper row Q17).
	ErrSuperseded = errors.New("step was taken over by another attempt")
)

// Claim is the right to commit one attempt of one step. It is valid while the step row
// is as the claim left it. Not safe for concurrent use.
type Claim struct {
	Video video.Video
	Plan  video.Plan // empty for the first step, which makes it, and for captions
	Step  Step
	// Usage is asked what the attempt has spent when its end is written. nil: nothing
	// is counted.
	Usage UsageFunc

	store    *Store
	metaETag string
	outbox   []tablestore.Entity // rows that the commit wrote, for Send
	promised int                 // chunks that are promised, as the commit of a chunk found; else 0
}

// Claim makes a new attempt the owner of a step. The write is conditional, so only one of
// several workers succeeds. messageID is that of the message that was delivered, and asked
// is when the work was asked for: a step without a row waits since then, and since now
// when that is zero. Errors: ErrDone, with a claim that may only follow up; ErrGone,
// ErrDuplicate, ErrSuperseded, or trouble with storage.
func (s *Store) Claim(ctx context.Context, key workflow.Key, messageID, worker string, asked time.Time) (*Claim, error) {
	rec, err := s.Get(ctx, key.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, err
	}
	c := &Claim{Video: rec.Video, store: s, metaETag: rec.ETag}

	c.Step, err = s.step(ctx, key)
	missing := errors.Is(err, errNoStep)
	if err != nil && !missing {
		return nil, err
	}
	if c.Step.State == StepDone {
		return c, ErrDone
	}
	declared := key.Declared()
	if !declared.Wanted(rec.Video, key.Generation) || missing && declared.Stage == workflow.OnRequest { // the request for the step writes its row
		return nil, ErrGone
	}
	if c.Step.State == StepRunning && c.Step.OwnerMessageID != "" && c.Step.OwnerMessageID != messageID {
		return nil, ErrDuplicate
	}
	if declared.Stage != workflow.First && key.Generation > 0 {
		if c.Plan, err = s.Plan(ctx, key.ID, key.Generation); err != nil {
			return nil, err
		}
	}
	if missing && !asked.IsZero() {
		c.Step.QueuedAt = asked.UTC().Truncate(time.Microsecond)
	}
	if err := c.take(ctx, missing, messageID, worker); err != nil {
		return nil, err
	}
	return c, nil
}

// secondLook bounds the requests that check, and perhaps undo, what a call has just
// written. They do not end with the caller's context.
const secondLook = 10 * time.Second

// take writes the new attempt into the step row.
func (c *Claim) take(ctx context.Context, missing bool, messageID, worker string) error {
	now, before := now(), c.Step
	if c.Step.State == StepRunning { // the attempt before was lost, which is noticed now
		c.Step.abandoned(now)
		c.Step.QueuedAt = now
	}
	c.Step.State, c.Step.OwnerMessageID, c.Step.Worker = StepRunning, messageID, worker
	c.Step.Attempt = uuid.NewString()
	c.Step.Attempts++
	c.Step.StartedAt = now
	if c.Step.QueuedAt.IsZero() || c.Step.QueuedAt.After(now) { // another host's clock
		c.Step.QueuedAt = now
	}
	var err error
	if missing {
		c.Step.etag, err = c.store.videos.Insert(ctx, c.Step.row())
	} else {
		c.Step.etag, err = c.store.videos.Update(ctx, c.Step.row(), c.Step.etag)
	}
	if tablestore.Overtaken(err) {
		return ErrSuperseded
	}
	if err != nil {
		return fmt.Errorf("claim %s: %w", c.Step.Key, err)
	}
	c.store.notifyAttempt(before, c.Step, c.Plan)
	if !missing {
		return nil
	}
	// The video may have been purged or cancelled between the read of META and this insert.
	// The new row of a purged video would never be removed, and that of a cancelled one would
	// say that a worker is at it. So META is read again, and the row is deleted if the step is
	// not wanted. A worker that was frozen here has lost its lease and its ctx, but it must
	// look all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), secondLook)
	defer cancel()
	if err := c.CheckActive(ctx); err != nil {
		if errors.Is(err, ErrGone) {
			_ = c.store.videos.Delete(ctx, string(c.Step.Key.ID), c.Step.Key.RowKey(), c.Step.etag)
		}
		return err
	}
	return nil
}

// CheckActive returns ErrGone when the video no longer wants this step. Long steps call
// it now and then, so that they stop when the video is deleted.
func (c *Claim) CheckActive(ctx context.Context) error {
	_, err := c.active(ctx)
	return err
}

// active reads META, or returns ErrGone: see CheckActive.
func (c *Claim) active(ctx context.Context) (Record, error) {
	rec, err := c.store.Get(ctx, c.Step.Key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !wanted(c.Step.Key, rec.Video) {
		return Record{}, ErrGone
	}
	return rec, err
}

func wanted(key workflow.Key, v video.Video) bool {
	return key.Declared().Wanted(v, key.Generation)
}

// Commit ends the step in one entity-group transaction: step row (If-Match: the fence),
// plan, META, part and outbox. The messages are sent by Send, after the commit and
// before the message is deleted. ErrSuperseded when another attempt owns the row,
// ErrGone when the video was deleted or cancelled meanwhile. Safe to repeat: a commit
// whose reply was lost is recognised by its attempt (paper row Q13).
func (c *Claim) Commit(ctx context.Context, commit Commit) error {
	output, err := json.Marshal(commit.Output)
	if err != nil {
		return fmt.Errorf("encode output of %s: %w", c.Step.Key, err)
	}
	done := c.Step
	done.State, done.Output, done.FinishedAt, done.Error, done.Read = StepDone, output, now(), nil, commit.Read
	return c.writeEnd(ctx, done, commit)
}

// usage is what the attempt has spent, with the write that records it and with what
// sending takes: a message for each promise, and the removal of the outbox rows. nil when
// nothing counts.
func (c *Claim) usage(messages, rows int) *Usage {
	if c.Usage == nil {
		return nil
	}
	spent := c.Usage()
	spent.Add(Usage{Requests: map[azstorage.RequestKind]int{azstorage.TableWrite: 1}})
	if messages > 0 {
		spent.Add(Usage{Requests: map[azstorage.RequestKind]int{azstorage.QueueWrite: messages, azstorage.TableDelete: rows}})
	}
	return &spent
}

// SendOutbox enqueues what the commit promised. Call it after the commit and before the
// message is deleted. If the process dies before that, Flush by the next delivery or
// the reconciler sends the rest of the outbox. Safe to repeat.
func (c *Claim) SendOutbox(ctx context.Context) error {
	return c.store.sendRows(ctx, c.Step.Key.ID, c.outbox)
}

// Fail ends the step with a permanent failure. Unless the step fails alone, the same
// transaction fails the video.
func (c *Claim) Fail(ctx context.Context, failure *video.Failure) error {
	failed := c.Step
	failed.State, failed.Error, failed.FinishedAt = StepFailed, failure, now()
	if c.Step.Key.Declared().IsOptional() {
		return c.writeEnd(ctx, failed, Commit{})
	}
	return c.writeEnd(ctx, failed, Commit{Video: func(v *video.Video) { v.State, v.Error = video.Failed, failure }})
}

// writeEnd submits the transaction of a commit, again while only META was in its way.
func (c *Claim) writeEnd(ctx context.Context, step Step, commit Commit) error {
	for {
		end, err := c.transaction(ctx, step, commit)
		if err != nil {
			return err
		}
		c.outbox = end.outbox
		again := false
		if _, err = c.store.videos.Submit(ctx, end.ops); err != nil {
			again, err = c.conflict(ctx, step, err)
		}
		if err == nil && !again {
			c.store.notifyAttempt(c.Step, end.step, c.Plan)
			c.store.notifyVideo(c.Video, end.video)
		}
		if !again {
			return err
		}
	}
}

// ending is what the commit of a step writes: operations, the outbox rows among them,
// and what they make of the step and the video.
type ending struct {
	ops    []tablestore.Op
	outbox []tablestore.Entity
	step   Step
	video  video.Video
}

// transaction is all that a commit writes, the outbox last.
func (c *Claim) transaction(ctx context.Context, step Step, commit Commit) (end ending, err error) {
	var follow []tablestore.Op
	var next []OutboxMessage
	switch {
	case step.State == StepDone:
		if follow, next, err = c.fanOut(ctx, commit); err != nil {
			return end, err
		}
	case commit.changesVideo():
		next = []OutboxMessage{FollowMessage()}
	}
	if end.outbox, err = outboxRows(ctx, step.Key.ID, next); err != nil {
		return end, err
	}
	outcome, cause := OutcomeDone, error(nil)
	if step.State == StepFailed {
		outcome, cause = OutcomeFailed, step.Error
	}
	step.ended(outcome, step.FinishedAt, cause, c.usage(len(next), len(end.outbox)))
	end.step, end.video = step, c.Video
	ops := []tablestore.Op{{Kind: tablestore.OpReplace, Entity: step.row(), IfMatch: c.Step.etag}}
	if commit.changesVideo() {
		if end.video, err = commit.edited(c.Video, step.Key); err != nil {
			return end, err
		}
		meta, err := metaRow(end.video)
		if err != nil {
			return end, err
		}
		ops = append(ops, tablestore.Op{Kind: tablestore.OpReplace, Entity: meta, IfMatch: c.metaETag})
	}
	ops = append(ops, follow...)
	if commit.Part != nil {
		row, err := partRow(step, *commit.Part)
		if err != nil {
			return end, err
		}
		ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: row})
	}
	end.ops = append(ops, inserted(end.outbox)...)
	return end, nil
}

// conflict finds out why a transaction was refused. Either it had succeeded and its
// reply was lost (no error), or another attempt owns the step (ErrSuperseded), or a
// user changed META (again).
func (c *Claim) conflict(ctx context.Context, step Step, cause error) (again bool, _ error) {
	if !tablestore.Overtaken(cause) {
		return false, fmt.Errorf("commit %s: %w", step.Key, cause)
	}
	now, err := c.requireOwner(ctx)
	if err != nil {
		return false, err
	}
	if now.State == step.State {
		return false, nil // the first request had succeeded
	}
	c.Step.etag = now.etag
	rec, err := c.active(ctx)
	if err != nil {
		return false, err
	}
	c.Video, c.metaETag = rec.Video, rec.ETag
	return true, nil
}

// requireOwner reads the step's row after a conflict: ErrSuperseded when another attempt
// owns it, ErrGone when there is none.
func (c *Claim) requireOwner(ctx context.Context) (Step, error) {
	now, err := c.store.step(ctx, c.Step.Key)
	if errors.Is(err, errNoStep) {
		return Step{}, ErrGone
	}
	if err == nil && now.Attempt != c.Step.Attempt {
		err = ErrSuperseded
	}
	return now, err
}

// MarkRetry records in the step row, for the timeline, that an attempt failed and will be
// tried again. The owner stays, because the same message is delivered again. A step
// row that changed meanwhile is left as it is, which is no error.
func (c *Claim) MarkRetry(ctx context.Context, cause error) error {
	return c.markUnfinished(ctx, OutcomeRetry, cause)
}

// MarkReleased is MarkRetry for an attempt that was interrupted, which is no failure of the
// step. cause may be nil.
func (c *Claim) MarkReleased(ctx context.Context, cause error) error {
	return c.markUnfinished(ctx, OutcomeReleased, cause)
}

func (c *Claim) markUnfinished(ctx context.Context, outcome Outcome, cause error) error {
	step, at := c.Step, now()
	step.ended(outcome, at, cause, c.usage(0, 0))
	step.State, step.FinishedAt, step.QueuedAt = StepQueued, at, at
	if cause != nil {
		step.Error = &video.Failure{Code: "retrying", Detail: cause.Error()}
	}
	_, err := c.store.videos.Update(ctx, step.row(), c.Step.etag)
	if err != nil && !tablestore.Overtaken(err) {
		return fmt.Errorf("give back %s: %w", step.Key, err)
	}
	if err == nil {
		c.store.notifyAttempt(c.Step, step, c.Plan)
	}
	return nil
}
