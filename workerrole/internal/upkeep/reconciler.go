package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// QueueState tells the reconciler whether a message can still be on its way.
type QueueState struct {
	// Empty: no message at all, neither visible nor hidden by a lease.
	Empty bool
	// Head is when the oldest visible message was put in; zero when none is visible.
	Head time.Time
}

// Reconciler gives every promise its message (paper rows Q3 and Q7): whatever
// was killed between a row and its message, and whatever message was lost or
// cleared, is found through the in-flight index and sent again.
type Reconciler struct {
	Videos *videostore.Store
	Queue  func(ctx context.Context, name string) (QueueState, error)
	// Grace is how long a promise may take before it counts as forgotten.
	Grace time.Duration
	// OrphanAfter is how long a video may stand still, with its queue moving on
	// past it, before its messages count as lost.
	OrphanAfter time.Duration
	// AbandonAfter is how long an upload may take before it is removed.
	AbandonAfter time.Duration
	Log          *slog.Logger
}

// Pass looks once at every video in flight.
func (r *Reconciler) Pass(ctx context.Context) (Pass, error) {
	marks, err := r.Videos.Inflight(ctx)
	if err != nil {
		return Pass{}, err
	}
	queues := map[string]QueueState{} // each is asked at most once a pass
	var errs []error
	for _, mark := range marks {
		if ctx.Err() != nil {
			return Pass{}, ctx.Err()
		}
		if time.Since(mark.Since) < r.Grace {
			continue
		}
		if err := r.check(ctx, mark, queues); err != nil {
			errs = append(errs, fmt.Errorf("reconcile %s: %w", mark.ID, err))
		}
	}
	return Pass{Items: len(marks)}, errors.Join(errs...)
}

func (r *Reconciler) check(ctx context.Context, mark videostore.Inflight, queues map[string]QueueState) error {
	view, err := r.Videos.ViewWithClips(ctx, mark.ID, videostore.StepQueued, videostore.StepRunning)
	if errors.Is(err, videostore.ErrNotFound) {
		return r.Videos.Settle(ctx, mark)
	}
	if err != nil {
		return err
	}
	if view.Promised {
		r.Log.Info("send what the outbox promised", "video", mark.ID)
		return r.Videos.Flush(ctx, mark.ID)
	}
	missing := view.OpenClips()
	switch state := view.Video.State; {
	case state.Terminal():
		if !mark.Indexed.Equal(view.Video.UpdatedAt) {
			missing = append(missing, videostore.IndexIntent())
		}
		if len(missing) == 0 {
			return r.Videos.Settle(ctx, mark)
		}
		return r.resend(ctx, view, missing, queues)
	case state == video.AwaitingUpload:
		if time.Since(mark.Since) < r.AbandonAfter {
			return nil
		}
		r.Log.Info("remove abandoned upload", "video", mark.ID)
		_, err := r.Videos.Delete(ctx, mark.ID, view.ETag)
		return err
	case state == video.Deleting:
		return r.resend(ctx, view, []videostore.Intent{videostore.PurgeIntent()}, queues)
	default:
		return r.resend(ctx, view, append(view.Missing(), missing...), queues)
	}
}

// resend promises again the intents whose messages are lost.
func (r *Reconciler) resend(ctx context.Context, view videostore.View, intents []videostore.Intent, queues map[string]QueueState) error {
	var lost []videostore.Intent
	for _, intent := range intents {
		q, known := queues[intent.Queue]
		if !known {
			var err error
			if q, err = r.Queue(ctx, intent.Queue); err != nil {
				return err
			}
			queues[intent.Queue] = q
		}
		if r.isLost(view, q) {
			lost = append(lost, intent)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	r.Log.Warn("send lost messages again", "video", view.Video.ID, "count", len(lost), "first", lost[0].Step)
	if err := r.Videos.Reopen(ctx, view, lost); err != nil {
		return err
	}
	return r.Videos.Promise(ctx, view.Record, lost)
}

// isLost reports whether a message that should be in q cannot be there. An empty
// queue is certain: its count includes hidden messages and is never too low. In
// a busy queue the order is roughly first in, first out, so a head that is much
// younger than the video's last sign of life has passed our message by.
func (r *Reconciler) isLost(view videostore.View, q QueueState) bool {
	last := lastSign(view)
	if q.Empty {
		return time.Since(last) > r.Grace
	}
	return time.Since(last) > r.OrphanAfter && !q.Head.IsZero() && q.Head.After(last.Add(time.Minute))
}

// lastSign is when anything of the video was last written.
func lastSign(view videostore.View) time.Time {
	last := view.Video.UpdatedAt
	for _, s := range view.Steps {
		for _, at := range []time.Time{s.QueuedAt, s.StartedAt, s.FinishedAt} {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// StateOf asks a queue. It costs one call, and a second one when the queue holds
// something.
func StateOf(ctx context.Context, q *workqueue.Queue) (QueueState, error) {
	state, err := q.Length(ctx)
	if err != nil {
		return QueueState{}, err
	}
	if state.Length == 0 {
		return QueueState{Empty: true}, nil
	}
	heads, err := q.Peek(ctx, 1)
	if err != nil || len(heads) == 0 {
		return QueueState{}, err
	}
	return QueueState{Head: heads[0].Inserted}, nil
}
