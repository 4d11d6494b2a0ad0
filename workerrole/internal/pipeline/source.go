package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// openUpload opens the parts of a complete upload, in the versions that were verified. When
// a blob has another one, the run fails with a *video.Failure, source_changed. Other errors
// of a read fail it with an ffmpeg.DependencyError.
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
