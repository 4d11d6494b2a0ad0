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
func isSeekRequest(key engine.Key, queue string) bool {
	return key.Index > 0 && queue == workflow.Declaration.StepOf(key).Queues[0]
}

// preview makes previews by a step.
type preview struct {
	videos *videostore.Store
	step   Previewer
}

// seek makes a preview and sends the part on to another queue. The slots of the
// urgent queue are few, and a viewer who goes elsewhere meanwhile needs one again.
//
//	the files → the PREVIEW row → the message that asks for the part → return, and the
//	consumer deletes this one
//
// A crash at any arrow repeats it, which does no harm.
func (p preview) seek(ctx context.Context, w *Work) (done bool, _ error) {
	if !isSeekRequest(w.Key, w.Queue) {
		return false, nil
	}
	rec, plan, there, err := p.videos.BeginPreview(ctx, w.Key)
	if errors.Is(err, engine.ErrDone) {
		return true, p.videos.Flush(ctx, w.Key.ID)
	}
	if err != nil {
		return true, err
	}
	if !there {
		w.Subject, w.Plan, w.Prefix = rec.Subject, plan, videostore.PreviewPrefix(w.Key, rand.Text())
		if err := w.WithScratch(func() error { return p.store(ctx, w) }); err != nil {
			return true, err
		}
	}
	failpoint.Hit(w.Key.Step + "/preview")
	// Safe to repeat: a second worker finds the part claimed or done.
	behind := workflow.Declaration.QueueAt(workflow.Declaration.StepOf(w.Key), 1, rec.Subject.Meta)
	return true, p.videos.Resend(ctx, rec, []engine.OutboxMessage{{Queue: behind, Key: w.Key}})
}

// store makes the preview and writes its row. A preview that fails is no failure of the run.
func (p preview) store(ctx context.Context, w *Work) error {
	made, err := p.step.Preview(ctx, w)
	if err == nil && made != nil {
		err = p.videos.AddPreview(ctx, w.Key, *made)
	}
	if _, trouble := azq.AsDependencyError(err); err == nil || trouble || context.Cause(ctx) != nil {
		return err
	}
	w.Log.WarnContext(ctx, "no preview", "error", err) // the part itself will tell what is wrong
	return nil
}
