package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// OpenSource lets ffmpeg read the upload or its remuxed copy until ctx ends, in the version
// that was verified. If the source was replaced the run fails with a *engine.Failure,
// source_changed. Call it once in an attempt.
func (w *Work) OpenSource(ctx context.Context) (_ ffmpeg.Source, err error) {
	var source sourceparts.Source
	switch {
	case w.Plan.Copy != nil:
		source, err = openCopy(ctx, w.Blobs, *w.Plan.Copy)
	case w.Subject.SourceETag != "" || w.early == nil:
		source, err = sourceparts.Committed(ctx, w.Blobs, w.Subject.Meta)
	default:
		source, err = w.early.Open(ctx, w.Subject, workflow.Declaration.StepOf(w.Key), w.Moved)
	}
	if err != nil {
		return ffmpeg.Source{}, err
	}
	served, err := serve(ctx, source)
	served.Demuxer, served.Heard = w.Plan.Demuxer, w.Plan.Heard
	return served, err
}

// ReadUpload opens the upload in the version that was verified. Every request counts as
// progress.
func (w *Work) ReadUpload(ctx context.Context) (io.Reader, error) {
	whole, err := sourceparts.Committed(ctx, w.Blobs, w.Subject.Meta)
	return newReadAhead(azstore.OnRequest(ctx, w.Progress), whole).reader(), err
}

// openCopy opens a remuxed copy, with the errors of sourceparts.Committed. Other errors
// of a read fail the run with trouble: ffmpeg.SourceDependency.
func openCopy(ctx context.Context, blobs *blobstore.Store, from engine.Blob) (sourceparts.Source, error) {
	head, err := blobs.Head(ctx, engine.SourcesContainer, from.Name)
	if err == nil && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return sourceparts.Source{}, sourceparts.Changed(fmt.Errorf("look at the copy of the source: %w", err))
	}
	whole := sourceparts.Layout{Bytes: head.Size, PartBytes: max(1, head.Size)}
	return sourceparts.Pinned(blobs, whole, func(int) engine.Blob { return from }), nil
}

func serve(ctx context.Context, from sourceparts.Source) (ffmpeg.Source, error) {
	ahead := newReadAhead(ctx, from)
	return ffmpeg.Serve(ctx, from.Layout.Bytes, func() io.ReadSeeker { return ahead.reader() })
}
