package pipeline

import (
	"context"
	"errors"
	"os"

	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
)

// Previewer is a Step that can make something to watch of a run, within seconds, for a
// viewer who went there.
type Previewer interface {
	// Preview stores the preview and its row. It may be called while the run itself is
	// under way. What it returns does not fail the run.
	Preview(ctx context.Context, w *Work) error
}

// awaited reports whether a message asks for a part that a viewer went to: it came
// through the queue of the first parts, in any lane, and its part is not the first.
func awaited(key workflow.Key, job *consumer.Job) bool {
	return !key.Begins() && job.Base == key.Declared().Queues[0]
}

// preview makes a preview and sends the part on to another queue. The slots of the
// urgent queue are few, and a viewer who goes elsewhere meanwhile needs one again.
//
//	the files → the PREVIEW row → the message that asks for the part → return, and the
//	consumer deletes this one
//
// A crash at any arrow repeats it, which does no harm.
func (r *Runner) preview(ctx context.Context, p Previewer, key workflow.Key, job *consumer.Job) error {
	claim, there, err := r.Videos.BeginPreview(ctx, key)
	switch {
	case errors.Is(err, videostore.ErrDone):
		return r.Videos.Flush(ctx, key.ID)
	case errors.Is(err, videostore.ErrGone):
		return workqueue.Unwanted(err.Error())
	case err != nil:
		return err
	}
	if !there {
		dir, err := r.makeDir()
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		work := r.work(claim, job, dir)
		err = p.Preview(ctx, work)
		_, trouble := workqueue.AsTrouble(err)
		switch {
		case trouble || context.Cause(ctx) != nil:
			return err
		case err != nil: // the part itself will tell what is wrong
			work.Log.WarnContext(ctx, "no preview", "error", err)
		}
	}
	failpoint.Hit(r.Step.Name() + "/preview")
	return claim.HandOn(ctx)
}
