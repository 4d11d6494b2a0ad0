package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// FailStep records that the attempts of a step are used up. Call it before the item is
// put into the poison queue. Unless the step fails alone, the same transaction fails the
// video. A step that is done or no longer wanted stays as it is. Safe to repeat.
func (s *Store) FailStep(ctx context.Context, key workflow.Key, failure *video.Failure) error {
	for {
		err := s.failStep(ctx, key, failure)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil || !key.Declared().IsOptional() {
			return err
		}
		return s.afterPart(ctx, key, true, 0)
	}
}

// failStep is one try. ErrChanged when the step row or META changed meanwhile.
func (s *Store) failStep(ctx context.Context, key workflow.Key, failure *video.Failure) error {
	rec, err := s.Get(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !wanted(key, rec.Video) {
		return nil
	}
	if err != nil {
		return err
	}
	write := tablestore.OpReplace
	step, err := s.step(ctx, key)
	switch {
	case errors.Is(err, errNoStep) && key.Declared().Stage == workflow.OnRequest:
		return nil // erased, because the video is being purged
	case errors.Is(err, errNoStep): // never claimed
		write = tablestore.OpInsert
	case err != nil:
		return err
	}
	if step.State == StepDone {
		return nil
	}
	at, before := now(), step
	step.exhausted(at)
	step.State, step.Error, step.FinishedAt = StepFailed, failure, at
	if key.Declared().IsOptional() {
		return s.failOptional(ctx, rec, before, step, write)
	}
	failed := rec.Video
	failed.State, failed.Error = video.Failed, failure
	rec, err = s.write(ctx, rec, failed, []OutboxMessage{FollowMessage()}, tablestore.Op{Kind: write, Entity: step.row(), IfMatch: step.etag})
	if rec.ETag != "" {
		s.notifyAttempt(before, step, video.Plan{})
	}
	return err
}

// failOptional writes a failure that is not the video's. META is in the transaction when
// the step gets its first row, so that no row is added to a video that is being purged.
func (s *Store) failOptional(ctx context.Context, rec Record, before, failed Step, write tablestore.OpKind) error {
	ops := []tablestore.Op{{Kind: write, Entity: failed.row(), IfMatch: failed.etag}}
	if write == tablestore.OpInsert {
		ops = append(ops, unchangedMeta(rec))
	}
	_, err := s.videos.Submit(ctx, ops)
	if tablestore.Overtaken(err) {
		return ErrChanged
	}
	if err != nil {
		return fmt.Errorf("fail %s: %w", failed.Key, err)
	}
	s.notifyAttempt(before, failed, video.Plan{})
	return nil
}
