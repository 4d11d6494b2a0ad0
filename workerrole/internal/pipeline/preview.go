package pipeline

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
)

// Previewer is a Step that can make something to watch of a run, within seconds, for a
// viewer who went there.
type Previewer interface {
	// Preview stores the files of a preview and returns its row, or nil when there is
	// nothing to show. It may be called while the run itself is under way. What it returns
	// does not fail the run.
	Preview(ctx context.Context, w *Work) (*video.Preview, error)
}

// isSeekRequest reports whether a message asks for a part that a viewer went to: it came
// through the queue of the first parts, in any lane, and its part is not the first.
func isSeekRequest(key engine.Key, job *azq.RawJob) bool {
	return key.Index > 0 && job.Base == workflow.Declaration.StepOf(key).Queues[0]
}

// previewSeek makes a preview and sends the part on to another queue. The slots of the
// urgent queue are few, and a viewer who goes elsewhere meanwhile needs one again.
//
//	the files → the PREVIEW row → the message that asks for the part → return, and the
//	consumer deletes this one
//
// A crash at any arrow repeats it, which does no harm.
func (r *Runner) previewSeek(ctx context.Context, d *delivery, next handler) error {
	p, can := r.Step.(Previewer)
	if !can || !isSeekRequest(d.key, d.job) {
		return next(ctx, d)
	}
	rec, plan, there, err := r.Videos.BeginPreview(ctx, d.key)
	if errors.Is(err, engine.ErrDone) {
		return r.Videos.Flush(ctx, d.key.ID)
	}
	if err != nil {
		return err
	}
	if !there {
		d.work.Video, d.work.Plan, d.work.Prefix = rec.Subject, plan, videostore.PreviewPrefix(d.key, rand.Text())
		preview := func(ctx context.Context, d *delivery) error { return r.preview(ctx, d, p) }
		if err := r.makeScratch(ctx, d, preview); err != nil {
			return err
		}
	}
	failpoint.Hit(d.key.Step + "/preview")
	// Safe to repeat: a second worker finds the part claimed or done.
	return r.Videos.Resend(ctx, rec, []engine.OutboxMessage{{
		Queue: workflow.Declaration.QueueAt(workflow.Declaration.StepOf(d.key), 1, rec.Subject.Meta), Key: d.key,
	}})
}

func (r *Runner) preview(ctx context.Context, d *delivery, p Previewer) error {
	made, err := p.Preview(ctx, d.work)
	if err == nil && made != nil {
		err = r.Videos.AddPreview(ctx, d.key, *made)
	}
	if _, trouble := azq.AsDependencyError(err); err == nil || trouble || context.Cause(ctx) != nil {
		return err
	}
	d.work.Log.WarnContext(ctx, "no preview", "error", err) // the part itself will tell what is wrong
	return nil
}
