package pipeline

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
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

// OpenSource lets ffmpeg read the upload or its remuxed copy until ctx ends, in the version
// that was verified. If the source was replaced the run fails with a *video.Failure,
// source_changed. Call it once in an attempt.
func (w *Work) OpenSource(ctx context.Context) (_ ffmpeg.Source, err error) {
	switch {
	case w.Plan.Copy != nil:
		w.source, err = openCopy(ctx, w.blobs, *w.Plan.Copy)
	case w.Video.SourceETag != "":
		w.source, err = openUpload(ctx, w.blobs, w.Video)
	default:
		w.source, err = w.early.Open(ctx, w.Video, w.Key.Declared(), w.moved)
	}
	if err != nil {
		return ffmpeg.Source{}, err
	}
	served, err := serve(ctx, w.source)
	served.Demuxer, served.Heard = w.Plan.Demuxer, w.Plan.Heard
	return served, err
}

// ReadUpload opens the upload in the version that was verified. Every request counts as
// progress.
func (w *Work) ReadUpload(ctx context.Context) (io.Reader, error) {
	whole, err := openUpload(ctx, w.blobs, w.Video)
	return newReadAhead(azstore.OnRequest(ctx, w.Progress), whole).reader(), err
}

// openUpload opens the parts of a complete upload, in the versions that were verified, or fails
// with source_changed. Other errors of a read fail the run with an ffmpeg.DependencyError.
func openUpload(ctx context.Context, blobs *blobstore.Store, v video.Video) (sourceparts.Source, error) {
	manifest, err := sourceparts.Committed(ctx, blobs, v)
	return sourceparts.Pinned(blobs, manifest.Layout, func(part int) video.Blob {
		return video.Blob{Name: sourceparts.Name(v.ID, manifest.Layout, part), ETag: manifest.Parts[part].ETag}
	}), err
}

// openCopy opens a remuxed copy, with the errors of openUpload.
func openCopy(ctx context.Context, blobs *blobstore.Store, from video.Blob) (sourceparts.Source, error) {
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Name)
	if err == nil && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return sourceparts.Source{}, sourceparts.Changed(fmt.Errorf("look at the copy of the source: %w", err))
	}
	whole := sourceparts.Layout{Bytes: head.Size, PartBytes: max(1, head.Size)}
	return sourceparts.Pinned(blobs, whole, func(int) video.Blob { return from }), nil
}

// serve lets ffmpeg read a source until ctx ends.
func serve(ctx context.Context, from sourceparts.Source) (ffmpeg.Source, error) {
	ahead := newReadAhead(ctx, from)
	return ffmpeg.Serve(ctx, from.Layout.Bytes, func() io.ReadSeeker { return ahead.reader() })
}
