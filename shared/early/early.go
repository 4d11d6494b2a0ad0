// Package early works on an upload before all of it is there. The first step reads the head
// and the end of the file; then chunks are made as their parts arrive. Nothing relies on it:
// what is not made by then is promised when the upload is complete (videostore.Store.Uploaded),
// and no failure before that is final.
//
// The web role tells of parts that have arrived (webrole/internal/upload), and the worker
// role lets steps read what is there (workerrole/internal/pipeline). Each registers
// [Uploads] in its main. Without that, work on a video begins when its upload is complete.
//
// Next: source.go, a file that is still being sent.
package early

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// maxTries is how often the first step may miss parts. Each try finds what the one before
// could not reach; a file that needs more cannot be read before it is complete.
const maxTries = 6

// Uploads are those that are still going on. Safe for concurrent use.
type Uploads struct {
	videos *videostore.Store
	blobs  *blobstore.Store
}

// New returns the uploads of a storage account.
func New(videos *videostore.Store, blobs *blobstore.Store) *Uploads {
	return &Uploads{videos: videos, blobs: blobs}
}

// Arrived promises what can be made of the parts of an upload that are held, ascending; nil for
// those that are there now. Parts that come without a call wait for the next one, or for the end
// of an early step. Safe to repeat.
func (u *Uploads) Arrived(ctx context.Context, id engine.ID, held []sourceparts.Part) (videostore.Record, error) {
	for {
		rec, err := u.videos.Get(ctx, id)
		if err != nil {
			return videostore.Record{}, err
		}
		upload := rec.Subject.Upload
		layout, inParts := sourceparts.LayoutOf(upload)
		if held == nil && inParts {
			if held, err = sourceparts.Held(ctx, u.blobs, id, layout); err != nil {
				return videostore.Record{}, err
			}
		}
		switch {
		case !inParts || rec.Subject.State != engine.AwaitingUpload || upload.ProbeTries >= maxTries || len(held) >= layout.Count():
			return rec, nil // nothing can be done, or Uploaded does it all
		case rec.Subject.Items > 0:
			err = u.promise(ctx, rec, layout, sourceparts.Head(held))
		case upload.Started && len(upload.PriorityParts) == 0: // the first step is promised
			return rec, nil
		case slices.ContainsFunc(sourceparts.First(upload), func(n int) bool {
			return !slices.ContainsFunc(held, func(p sourceparts.Part) bool { return p.Number == n })
		}):
			return rec, nil // it would miss one
		default:
			rec, err = u.begin(ctx, rec)
		}
		if !errors.Is(err, engine.ErrChanged) {
			return rec, err
		}
	}
}

// begin promises the first step, for the first time or because what it missed has come.
func (u *Uploads) begin(ctx context.Context, rec videostore.Record) (videostore.Record, error) {
	return u.videos.Change(ctx, rec.Subject.ID, rec.ETag, func(v *video.Video) ([]engine.OutboxMessage, error) {
		message, upload := u.videos.FirstStep(ctx, v), *v.Upload
		upload.Started, upload.PriorityParts = true, nil
		v.Upload = &upload
		return []engine.OutboxMessage{message}, nil
	})
}

// promise promises the chunks whose parts are among the first ones.
func (u *Uploads) promise(ctx context.Context, rec videostore.Record, layout sourceparts.Layout, parts int) error {
	plan, err := u.videos.Plan(ctx, rec.Subject.ID, rec.Subject.Generation)
	if err != nil {
		return err
	}
	return u.videos.PromiseUntil(ctx, rec, plan, reach(plan, layout, parts))
}

// What is read beyond the share of the file that a chunk should take: in seconds of video,
// and in bytes, at most one part. Wrong guesses cost time only: a run waits for bytes that
// are on their way, and one that misses them is thrown away. How often that is was
// measured: decision 0056.
const (
	needSeconds = 1
	needBytes   = 512 << 10
)

// reach is how many chunks can be made of the first parts of an upload, by proportion: half
// of the time needs half of the bytes. The last chunk runs to the end of the file, wherever
// that is, and waits for all of it.
func reach(plan video.Plan, layout sourceparts.Layout, parts int) int {
	for n, chunk := range plan.Chunks {
		share := (plan.FPS.Seconds(chunk.To) + needSeconds) / plan.DurationSeconds
		need := int64(float64(layout.Bytes)*min(1, share)) + min(needBytes, layout.PartBytes)
		if plan.Last(n) || layout.At(min(need, layout.Bytes-1)) >= parts {
			return n
		}
	}
	return 0
}

// How long a part of a video waits for bytes of the upload, at first and at most.
const (
	firstPause = 2 * time.Second
	lastPause  = 2 * time.Minute
)

// Settle decides about the message of a step that ran before its upload was complete. err is
// how the step ended, which its row says already; the result is an error of package azq,
// or nil. A step that is done makes room for more chunks. One that misses bytes is put off: the
// first step until its parts have come, which are sent next (Arrived); others for a while,
// longer each time, because the rest may never come. A failure ends early work on the video.
// Safe to repeat.
func (u *Uploads) Settle(ctx context.Context, key engine.Key, snoozes int, err error) error {
	missing, isMissing := errors.AsType[*notYetError](err)
	_, failed := errors.AsType[*engine.Failure](err)
	first := workflow.Declaration.StepOf(key).Stage == engine.First
	waits, e := false, error(nil)
	switch {
	case err == nil:
		if _, err = u.Arrived(ctx, key.ID, nil); errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	case isMissing && first:
		waits, e = u.change(ctx, key.ID, func(upload *engine.Upload) {
			upload.PriorityParts, upload.ProbeTries = missing.parts, upload.ProbeTries+1
		})
	case failed:
		waits, e = u.giveUp(ctx, key.ID)
	case isMissing:
		waits, e = u.change(ctx, key.ID, nil)
	default:
		return err
	}
	switch {
	case e != nil:
		return e
	case !waits: // all of it has come meanwhile
		return azq.Snooze(time.Second, err.Error())
	case first || failed:
		return azq.Unwanted("waits for the upload: " + err.Error())
	}
	return azq.Snooze(min(firstPause<<min(snoozes, 10), lastPause), err.Error())
}

// giveUp has nothing more promised before the upload is complete.
func (u *Uploads) giveUp(ctx context.Context, id engine.ID) (waits bool, _ error) {
	return u.change(ctx, id, func(upload *engine.Upload) { upload.ProbeTries = maxTries })
}

// change edits what META says about an upload, and reports whether that goes on. Safe to repeat.
func (u *Uploads) change(ctx context.Context, id engine.ID, edit func(*engine.Upload)) (waits bool, _ error) {
	_, err := u.videos.Change(ctx, id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		if waits = v.State == engine.AwaitingUpload; !waits || edit == nil {
			return nil, engine.ErrUnchanged
		}
		upload := *v.Upload
		edit(&upload)
		v.Upload = &upload
		return nil, nil
	})
	return waits, err
}

// Exhausted reports whether attempts at a step that are used up say nothing about it, because
// it was asked for before the upload was complete. Then it is done again: its row is cleared,
// for another message to claim it, and that message is promised now or by Uploaded. Safe to
// repeat.
func (u *Uploads) Exhausted(ctx context.Context, key engine.Key, asked time.Time) (again bool, _ error) {
	view, err := u.videos.View(ctx, key.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	v := view.Subject
	if err != nil || v.Upload == nil || !v.Upload.Started || !v.Working() || !v.UploadedAt.IsZero() && !asked.Before(v.UploadedAt) {
		return false, err
	}
	if err := u.videos.Reopen(ctx, view, []engine.OutboxMessage{{Key: key}}); err != nil {
		return false, err
	}
	if v.State == engine.AwaitingUpload {
		waits, err := u.giveUp(ctx, key.ID)
		if err == nil && !waits {
			err = fmt.Errorf("give up early work on %s: %w", key.ID, engine.ErrChanged)
		}
		return true, err
	}
	for _, message := range view.Missing() {
		if message.Key == key {
			return true, u.videos.Resend(ctx, view.Record, []engine.OutboxMessage{message})
		}
	}
	return true, nil
}
