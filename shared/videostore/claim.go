package videostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

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
	// Usage is asked what the attempt has spent when its end is written; what comes after
	// that write cannot be in it. nil: nothing is counted.
	Usage func() Usage

	store    *Store
	metaETag string
	outbox   []tablestore.Entity // rows that the commit wrote, for Send
}

// Claim makes a new attempt the owner of a step. The write is conditional, so only one of
// several workers succeeds. messageID is that of the message that was delivered, and asked
// is when the work was asked for: a step without a row waits since then, and since now
// when that is zero. Errors: ErrDone, with a claim that may only follow up; ErrGone,
// ErrDuplicate, ErrSuperseded, or trouble with storage.
//
// The video may be cancelled or purged between the read of META and the write. So look again
// when the work has begun (CheckActive); a row that a purged video got so is left to Sweep.
func (s *Store) Claim(ctx context.Context, key workflow.Key, messageID, worker string, asked time.Time) (*Claim, error) {
	c, err := s.unclaimed(ctx, key)
	if err != nil {
		return c, err
	}
	declared := key.Declared()
	if c.Step.etag == "" && declared.Stage == workflow.OnRequest { // the request for the step writes its row
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
	if c.Step.etag == "" && !asked.IsZero() {
		c.Step.QueuedAt = asked.UTC().Truncate(time.Microsecond)
	}
	if err := c.take(ctx, messageID, worker); err != nil {
		return nil, err
	}
	return c, nil
}

// unclaimed reads a step and its video. ErrDone, with the claim; ErrGone when the step is not
// wanted.
func (s *Store) unclaimed(ctx context.Context, key workflow.Key) (*Claim, error) {
	rec, err := s.Get(ctx, key.ID)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, err
	}
	c := &Claim{Video: rec.Video, store: s, metaETag: rec.ETag}
	c.Step, err = s.step(ctx, key)
	switch {
	case err != nil && !errors.Is(err, errNoStep):
		return nil, err
	case c.Step.State == StepDone:
		return c, ErrDone
	case !wanted(key, rec.Video):
		return nil, ErrGone
	}
	return c, nil
}

// take writes the new attempt into the step row.
func (c *Claim) take(ctx context.Context, messageID, worker string) (err error) {
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
	if before.etag == "" {
		c.Step.etag, err = c.store.videos.Insert(ctx, c.Step.row())
	} else {
		c.Step.etag, err = c.store.videos.Update(ctx, c.Step.row(), before.etag)
	}
	switch {
	case err == nil:
		c.store.notifyAttempt(before, c.Step, c.Plan)
	case tablestore.Overtaken(err):
		return ErrSuperseded
	default:
		err = fmt.Errorf("claim %s: %w", c.Step.Key, err)
	}
	return err
}

// CheckActive returns ErrGone when the video no longer wants this step. Steps call it when
// they have begun and now and then, so that they stop when the video is deleted.
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

// GiveBack records in the step row, for the timeline, that an attempt ended without a commit:
// OutcomeRetry when it failed and will be tried again, OutcomeReleased when it was interrupted,
// which is no failure of the step. cause may be nil. The owner stays, because the same message
// is delivered again. A step row that changed meanwhile is left as it is, which is no error.
func (c *Claim) GiveBack(ctx context.Context, outcome Outcome, cause error) error {
	step, at := c.Step, now()
	step.ended(outcome, at, cause, c.usage(0, 0))
	step.State, step.FinishedAt, step.QueuedAt = StepQueued, at, at
	if cause != nil {
		step.Error = &video.Failure{Code: "retrying", Detail: cause.Error()}
	}
	return c.store.update(ctx, c.Step, step, c.Plan)
}

// update replaces a step row by another version, unless it has changed or is gone.
func (s *Store) update(ctx context.Context, before, after Step, plan video.Plan) error {
	_, err := s.videos.Update(ctx, after.row(), before.etag)
	if err == nil {
		s.notifyAttempt(before, after, plan)
	}
	if err != nil && !tablestore.Overtaken(err) {
		return fmt.Errorf("give back %s: %w", after.Key, err)
	}
	return nil
}
