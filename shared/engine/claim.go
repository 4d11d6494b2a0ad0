package engine

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Why a step cannot be worked on, or can no longer be committed.
var (
	// ErrDone: an earlier delivery committed the step. Repeat what comes after the
	// commit, then delete the message.
	ErrDone = errors.New("step is done")
	// ErrGone: the subject is deleted, cancelled, failed or in another generation. Delete the message.
	ErrGone = errors.New("step is not wanted any more")
	// ErrDuplicate: another message carries this step and its worker runs it. Delete this one.
	ErrDuplicate = errors.New("step is carried by another message")
	// ErrSuperseded: another attempt owns the row. Write nothing, delete nothing (paper row Q17).
	ErrSuperseded = errors.New("step was taken over by another attempt")
)

// Claim is the right to commit one attempt of one step. It is valid while the step row
// is as the claim left it. Not safe for concurrent use.
type Claim[V, P any] struct {
	Record[V]   // the subject, as it was read last
	Plan      P // empty for the first step, which makes it, and for a variant
	Run       Run
	// Usage is asked what the attempt has spent when its end is written. nil: nothing is counted.
	Usage func() Usage

	store  *Store[V, P]
	outbox []tablestore.Entity // rows that the commit wrote, for SendOutbox
}

// Claim makes a new attempt the owner of a step. The write is conditional, so only one of
// several workers succeeds. asked is when the work was asked for: a step without a row waits
// since then, and since now when that is zero. ErrDone, with a claim that may only follow up;
// ErrGone, ErrDuplicate, ErrSuperseded.
//
// The subject may be cancelled or purged between the read of META and the write. So look again
// when the work has begun (Claim.Active); a row that a purged subject got so is left to upkeep.
func (s *Store[V, P]) Claim(ctx context.Context, key Key, messageID, worker string, asked time.Time) (*Claim[V, P], error) {
	c, err := s.unclaimed(ctx, key)
	if errors.Is(err, ErrDone) {
		return c, err
	}
	if err != nil {
		return nil, err
	}
	run, before, now := &c.Run, c.Run, Now()
	if run.State == RunRunning && run.OwnerMessageID != "" && run.OwnerMessageID != messageID {
		return nil, ErrDuplicate
	}
	switch {
	case run.State == RunRunning: // the attempt before was lost, which is noticed now
		run.abandoned(now)
		run.QueuedAt = now
	case run.etag == "":
		run.QueuedAt = asked.UTC().Truncate(time.Microsecond)
	}
	if run.QueuedAt.IsZero() || run.QueuedAt.After(now) { // another host's clock
		run.QueuedAt = now
	}
	// snippet: take-the-row
	run.State, run.OwnerMessageID, run.Worker = RunRunning, messageID, worker
	run.Attempt, run.StartedAt = uuid.NewString(), now
	run.Attempts++
	run.etag, err = s.subjects.Put(ctx, run.row(), before.etag)
	if tablestore.Overtaken(err) {
		return nil, ErrSuperseded
	}
	// end snippet
	if err != nil {
		return nil, err
	}
	s.notifyAttempt(before, *run, c.Plan)
	return c, nil
}

// unclaimed reads a run, its subject and its plan. ErrDone, with the claim; ErrGone when the step
// is not wanted. When only the plan cannot be read, the claim comes with that error.
func (s *Store[V, P]) unclaimed(ctx context.Context, key Key) (*Claim[V, P], error) {
	rec, err := read(ctx, s.subjects, key.ID, MetaKey, ErrGone, readMeta[V])
	if err != nil {
		return nil, err
	}
	c := &Claim[V, P]{Record: rec, store: s}
	c.Run, err = s.ReadRun(ctx, key)
	step, done := s.StepOf(key), c.Run.State == RunDone
	asked := err == nil || !key.OnRequest() // a request writes the row
	switch {
	case err != nil && !errors.Is(err, ErrNoRun):
		return nil, err
	case !done && (!asked || !step.Wanted(rec.Meta(), key.Generation)):
		return nil, ErrGone
	case step.Stage != First && key.Generation > 0:
		if c.Plan, err = s.Plan(ctx, key.ID, key.Generation); err != nil {
			return c, err
		}
	}
	if done {
		return c, ErrDone
	}
	return c, nil
}

// Active reads META, or returns ErrGone when the subject no longer wants this step.
func (c *Claim[V, P]) Active(ctx context.Context) (Record[V], error) {
	rec, err := read(ctx, c.store.subjects, c.Run.Key.ID, MetaKey, ErrGone, readMeta[V])
	if err == nil && !c.store.StepOf(c.Run.Key).Wanted(rec.Meta(), c.Run.Key.Generation) {
		err = ErrGone
	}
	return rec, err
}

// GiveBack records in the step row, for the timeline, that an attempt ended without a commit:
// OutcomeRetry or OutcomeReleased. cause may be nil. The owner stays, because the same message
// is delivered again. A step row that changed meanwhile is left as it is, which is no error.
func (c *Claim[V, P]) GiveBack(ctx context.Context, outcome Outcome, cause error) error {
	run, at := c.Run, Now()
	run.ended(outcome, at, cause, c.usage(0, 0))
	run.State, run.FinishedAt, run.QueuedAt = RunQueued, at, at
	if cause != nil {
		run.Error = &Failure{Code: "retrying", Detail: cause.Error()}
	}
	return c.store.update(ctx, c.Run, run, c.Plan)
}

// update replaces a step row by another version, unless it has changed or is gone.
func (s *Store[V, P]) update(ctx context.Context, before, after Run, plan P) error {
	_, err := s.subjects.Update(ctx, after.row(), before.etag)
	if tablestore.Overtaken(err) {
		return nil
	}
	if err == nil {
		s.notifyAttempt(before, after, plan)
	}
	return err
}
