package videostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// ErrPostponed says that a failure is not final: the step worked on an upload that was
// still going on, and is promised again when all of it is there.
var ErrPostponed = errors.New("step is done again with the complete upload")

// FailStep records that the attempts of a step are used up. Call it before the item is
// put into the poison queue, and do not put it there when this returns ErrPostponed.
// asked is when the item was asked for, because attempts on half an upload say nothing
// about the whole. Unless the step fails alone, the same transaction fails the video. A
// step that is done or no longer wanted stays as it is. Safe to repeat.
func (s *Store) FailStep(ctx context.Context, key workflow.Key, asked time.Time, failure *video.Failure) error {
	for {
		err := s.failStep(ctx, key, asked, failure)
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
func (s *Store) failStep(ctx context.Context, key workflow.Key, asked time.Time, failure *video.Failure) error {
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
	u := rec.Video.Upload
	if early := rec.Video.ProcessedEarly(); early || u != nil && u.Started && asked.Before(rec.Video.UploadedAt) {
		if err := s.reopen(ctx, step); err != nil {
			return err
		}
		if early {
			return s.failEarly(ctx, key.ID)
		}
		return s.askAgain(ctx, rec, key)
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

// failEarly is failStep while the upload goes on. ErrChanged when it is complete by now.
func (s *Store) failEarly(ctx context.Context, id video.ID) error {
	waits, err := s.Postpone(ctx, id)
	switch {
	case err != nil:
		return err
	case !waits:
		return ErrChanged
	}
	return ErrPostponed
}

// askAgain is failStep for attempts that began on half an upload that is complete now. The
// new item has no failures.
func (s *Store) askAgain(ctx context.Context, rec Record, key workflow.Key) error {
	message := probeMessage(rec.Video)
	if declared := key.Declared(); declared.Stage != workflow.First {
		plan, err := s.Plan(ctx, key.ID, key.Generation)
		if err != nil {
			return err
		}
		message = messageFor(rec.Video, plan, declared, key.Index)
	}
	if err := s.Resend(ctx, rec, []OutboxMessage{message}); err != nil {
		return err
	}
	return ErrPostponed
}

// failOptional writes a failure that is not the video's. META is in the transaction when
// the step gets its first row, so that no row is added to a video that is being purged.
func (s *Store) failOptional(ctx context.Context, rec Record, before, failed Step, write tablestore.OpKind) error {
	ops := []tablestore.Op{{Kind: write, Entity: failed.row(), IfMatch: failed.etag}}
	if write == tablestore.OpInsert {
		ops = append(ops, unchangedMeta(rec))
	}
	_, err := s.videos.Submit(ctx, ops)
	if isStale(err) {
		return ErrChanged
	}
	if err != nil {
		return fmt.Errorf("fail %s: %w", failed.Key, err)
	}
	s.notifyAttempt(before, failed, video.Plan{})
	return nil
}
