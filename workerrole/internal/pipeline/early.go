package pipeline

import (
	"context"
	"time"

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Early lets steps run on an upload that is still going on: package early. Without it, no
// step is promised before an upload is complete.
type Early interface {
	// Open opens the file that is being sent. moved says when the run last made progress.
	Open(ctx context.Context, v video.Video, step workflow.Step, moved func() time.Time) (sourceparts.Source, error)
	// Verify returns a *video.Failure when steps of a generation read what was not committed.
	Verify(ctx context.Context, view videostore.View, generation int) error
	// Settle returns what the message of a step is settled with that ended with err.
	Settle(ctx context.Context, key workflow.Key, snoozes int, err error) error
	// Exhausted reports whether a step whose attempts are used up is done again all the same.
	Exhausted(ctx context.Context, key workflow.Key, asked time.Time) (again bool, err error)
}

// Growing reports whether the upload was going on when the step was claimed.
func (w *Work) Growing() bool { return growing(w.Video, w.Key) }

func growing(v video.Video, key workflow.Key) bool {
	return v.SourceETag == "" && key.Declared().Stage != workflow.OnRequest
}

// VerifySource fails with a *video.Failure, source_changed, when steps of the plan were made
// from a file that is not the one that was committed.
func (w *Work) VerifySource(ctx context.Context, view videostore.View) error {
	if w.early == nil {
		return nil
	}
	return w.early.Verify(ctx, view, w.Plan.Generation)
}

// settleEarly lets a step wait for the rest of its upload.
func (r *Runner) settleEarly(next handler) handler {
	return func(ctx context.Context, d *delivery) error {
		err := next(ctx, d)
		if r.Early == nil || d.claim == nil || !growing(d.claim.Video, d.key) {
			return err
		}
		return r.Early.Settle(ctx, d.key, d.job.Item.Snoozes, err)
	}
}
