package videostore

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Why a step cannot be worked on, or can no longer be committed.
var (
	// ErrDone: an earlier delivery committed the step. Repeat what comes after the
	// commit, then delete the message.
	ErrDone = errors.New("step is done")
	// ErrGone: the video is deleted, cancelled, failed or in another generation. Delete the message.
	ErrGone = errors.New("step is not wanted any more")
	// ErrDuplicate: another message carries this step and its worker runs it. Delete this one.
	ErrDuplicate = errors.New("step is carried by another message")
	// ErrSuperseded: another attempt owns the row. Write nothing, delete nothing (paper row Q17).
	ErrSuperseded = errors.New("step was taken over by another attempt")
)

// Claim is the right to commit one attempt of one step. It is valid while the step row
// is as the claim left it. Not safe for concurrent use.
type Claim struct {
	Record            // the video, as it was read last
	Plan   video.Plan // empty for the first step, which makes it, and for captions
	Step   Step
	// Usage is asked what the attempt has spent when its end is written. nil: nothing is counted.
	Usage func() Usage

	store  *Store
	outbox []tablestore.Entity // rows that the commit wrote, for SendOutbox
}

// Claim makes a new attempt the owner of a step. The write is conditional, so only one of
// several workers succeeds. asked is when the work was asked for: a step without a row waits
// since then, and since now when that is zero. ErrDone, with a claim that may only follow up;
// ErrGone, ErrDuplicate, ErrSuperseded.
//
// The video may be cancelled or purged between the read of META and the write. So look again
// when the work has begun (Claim.Active); a row that a purged video got so is left to Sweep.
func (s *Store) Claim(ctx context.Context, key workflow.Key, messageID, worker string, asked time.Time) (*Claim, error) {
	c, err := s.unclaimed(ctx, key)
	if err != nil {
		return c, err
	}
	step, before, now := &c.Step, c.Step, now()
	if step.State == StepRunning && step.OwnerMessageID != "" && step.OwnerMessageID != messageID {
		return nil, ErrDuplicate
	}
	if key.Declared().Stage != workflow.First && key.Generation > 0 {
		if c.Plan, err = s.Plan(ctx, key.ID, key.Generation); err != nil {
			return nil, err
		}
	}
	switch {
	case step.State == StepRunning: // the attempt before was lost, which is noticed now
		step.abandoned(now)
		step.QueuedAt = now
	case step.etag == "":
		step.QueuedAt = asked.UTC().Truncate(time.Microsecond)
	}
	if step.QueuedAt.IsZero() || step.QueuedAt.After(now) { // another host's clock
		step.QueuedAt = now
	}
	step.State, step.OwnerMessageID, step.Worker = StepRunning, messageID, worker
	step.Attempt, step.StartedAt = uuid.NewString(), now
	step.Attempts++
	step.etag, err = s.videos.Put(ctx, step.row(), before.etag)
	if tablestore.Overtaken(err) {
		return nil, ErrSuperseded
	}
	if err != nil {
		return nil, err
	}
	s.notifyAttempt(before, *step, c.Plan)
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
	c := &Claim{Record: rec, store: s}
	c.Step, err = s.step(ctx, key)
	asked := err == nil || key.Declared().Stage != workflow.OnRequest // a request writes the row
	switch {
	case err != nil && !errors.Is(err, errNoStep):
		return nil, err
	case c.Step.State == StepDone:
		return c, ErrDone
	case !asked || !key.Declared().Wanted(rec.Video, key.Generation):
		return nil, ErrGone
	}
	return c, nil
}

// Active reads META, or returns ErrGone when the video no longer wants this step.
func (c *Claim) Active(ctx context.Context) (Record, error) {
	rec, err := c.store.Get(ctx, c.Step.Key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !c.Step.Key.Declared().Wanted(rec.Video, c.Step.Key.Generation) {
		return Record{}, ErrGone
	}
	return rec, err
}

// GiveBack records in the step row, for the timeline, that an attempt ended without a commit:
// OutcomeRetry or OutcomeReleased. cause may be nil. The owner stays, because the same message
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
	if tablestore.Overtaken(err) {
		return nil
	}
	if err == nil {
		s.notifyAttempt(before, after, plan)
	}
	return err
}
