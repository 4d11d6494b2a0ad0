// Package preview makes something to watch of a chunk within seconds, for a viewer who went
// there: {rendition}.m4s, audio.m4s and a PREVIEW row.
package preview

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// maker makes previews. Safe for concurrent use.
type maker struct {
	previews.Store
	videos *videostore.Store
	tool   *ffmpeg.Tool
}

// Add has previews made of the chunks of these videos. Call it before the store is used.
func Add(hooks *pipeline.Hooks, videos *videostore.Store, tool *ffmpeg.Tool) {
	m := maker{previews.Open(videos), videos, tool}
	hooks.Before, hooks.Named = m.before, m.Blobs
}

// isSeekRequest reports whether a message asks for a chunk that a viewer went to: it came
// through the queue of the first ones, in any lane, and its chunk is not the first.
func isSeekRequest(key engine.Key, queue string) bool {
	step := workflow.Declaration.StepOf(key)
	return step.Makes == workflow.Pictures && key.Index > 0 && queue == step.Queues[0]
}

// before makes a preview and sends the chunk on to another queue. The slots of the
// urgent queue are few, and a viewer who goes elsewhere meanwhile needs one again.
//
//	the files → the PREVIEW row → the message that asks for the chunk → return, and the
//	consumer deletes this one
//
// A crash at any arrow repeats it, which does no harm.
func (m maker) before(ctx context.Context, w *pipeline.Work) (done bool, _ error) {
	if !isSeekRequest(w.Key, w.Queue) {
		return false, nil
	}
	rec, plan, there, err := m.Begin(ctx, w.Key)
	if errors.Is(err, engine.ErrDone) {
		return true, m.videos.Flush(ctx, w.Key.ID)
	}
	if err != nil {
		return true, err
	}
	if !there {
		w.Subject, w.Plan, w.Prefix = rec.Subject, plan, previews.Prefix(w.Key, rand.Text())
		if err := w.WithScratch(func() error { return m.store(ctx, w) }); err != nil {
			return true, err
		}
	}
	failpoint.Hit(w.Key.Step + "/preview")
	// Safe to repeat: a second worker finds the chunk claimed or done.
	behind := workflow.Declaration.InLane(workflow.Declaration.StepOf(w.Key).Queues[1], rec.Subject.Meta)
	return true, m.videos.Resend(ctx, rec, []engine.OutboxMessage{{Queue: behind, Key: w.Key}})
}

// store makes the preview and writes its row. A preview that fails is no failure of the run.
func (m maker) store(ctx context.Context, w *pipeline.Work) error {
	err := m.encode(ctx, w)
	if _, trouble := azq.AsDependencyError(err); err == nil || trouble || context.Cause(ctx) != nil {
		return err
	}
	w.Log.WarnContext(ctx, "no preview", "error", err) // the chunk itself will tell what is wrong
	return nil
}

// encode stores the files of a preview and then its row, unless there is nothing to show. The
// chunk itself may be under way.
func (m maker) encode(ctx context.Context, w *pipeline.Work) error {
	source, err := w.OpenSource(ctx)
	if err != nil {
		return err
	}
	made, err := media.EncodePreview(ctx, m.tool, source, w.Plan, w.Key.Index, w.Dir)
	if err != nil || made.Pictures.Frames == 0 {
		return err
	}
	err = w.Replace(ctx, &made.Pictures.Renditions[0].Blob, "video/mp4")
	if err == nil && made.Sound != nil {
		err = w.Replace(ctx, &made.Sound.Blob, "audio/mp4")
	}
	if err != nil {
		return err
	}
	return m.Add(ctx, w.Key, made)
}
