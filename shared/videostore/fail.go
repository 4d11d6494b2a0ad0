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
		c, err := s.unclaimed(ctx, key)
		gone := err == nil && c.Step.etag == "" && key.Declared().Stage == workflow.OnRequest // erased, because the video is being purged
		if gone || errors.Is(err, ErrGone) || errors.Is(err, ErrDone) {
			return nil
		}
		if err != nil {
			return err
		}
		step := c.Step
		step.exhausted()
		step, commit := step.failed(failure)
		failed, after, err := c.submit(ctx, step, commit, func(*Step, int, int) {})
		if tablestore.Overtaken(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("fail %s: %w", key, err)
		}
		c.notify(failed, after)
		if !key.Declared().IsOptional() {
			return c.SendOutbox(ctx)
		}
		return s.afterPart(ctx, key, true)
	}
}
