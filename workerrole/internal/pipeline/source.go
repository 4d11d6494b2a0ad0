package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Pinned is one version of a blob in video.SourcesContainer.
type Pinned struct {
	Blob string
	ETag string // empty: whatever version is there now
}

// openSource lets ffmpeg read a version of a blob until ctx ends, and returns the
// version. The holder of a valet key can write the blob as long as the key
// lives, also after its content was verified. So every read names the version
// that was verified (If-Match), and one that finds another fails the run with a
// *video.Failure, source_changed. A read that fails otherwise fails the run with
// an ffmpeg.TroubleError.
func openSource(ctx context.Context, blobs *blobstore.Store, from Pinned, demuxer string) (ffmpeg.Source, Pinned, error) {
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Blob)
	if err == nil && from.ETag != "" && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return ffmpeg.Source{}, from, changed(fmt.Errorf("look at the source: %w", err))
	}
	from.ETag = head.ETag
	source, err := ffmpeg.Serve(ctx, head.Size, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		body, _, err := blobs.Open(ctx, video.SourcesContainer, from.Blob, blobstore.Range{Offset: offset}, from.ETag)
		if err != nil {
			return nil, changed(fmt.Errorf("read the source: %w", err))
		}
		return reader{body}, nil
	})
	source.Demuxer = demuxer
	return source, from, err
}

// reader finds out in the middle of a stream, too, that the source has changed:
// the stream goes on after a broken connection, and then names its version again.
type reader struct{ io.ReadCloser }

func (r reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = changed(fmt.Errorf("read the source: %w", err))
	}
	return n, err
}

// changed turns the refusal of another version into the permanent failure that
// it is.
func changed(err error) error {
	if errors.Is(err, blobstore.ErrChanged) {
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	}
	return err
}
