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

// openSource lets ffmpeg read one version of a blob until ctx ends, and returns the
// version. Whoever has the valet key can overwrite the blob while the key is valid, also
// after the content was verified. So every request names the verified version
// (If-Match). When the blob has another, the run fails with a *video.Failure,
// source_changed. Other errors of a read fail it with an ffmpeg.TroubleError.
func openSource(ctx context.Context, blobs *blobstore.Store, from Pinned, demuxer string) (ffmpeg.Source, Pinned, error) {
	from, size, err := pin(ctx, blobs, from)
	if err != nil {
		return ffmpeg.Source{}, from, err
	}
	ahead := newReadAhead(ctx, blobs, from, size)
	source, err := ffmpeg.Serve(ctx, size, func(_ context.Context, offset int64) (io.ReadCloser, error) {
		return ahead.open(offset)
	})
	source.Demuxer = demuxer
	return source, from, err
}

// pin returns the version of a blob that is to be read, and its size in bytes. Without
// an ETag in from that is the version that is there now.
func pin(ctx context.Context, blobs *blobstore.Store, from Pinned) (Pinned, int64, error) {
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Blob)
	if err == nil && from.ETag != "" && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return from, 0, changed(fmt.Errorf("look at the source: %w", err))
	}
	from.ETag = head.ETag
	return from, head.Size, nil
}

// piece is the most that one request of a reader asks for: a block of an upload.
const piece = 4 << 20

// reader reads one version of a blob to its end, piece by piece. Every request names
// the version, so a change of the blob is also noticed in the middle.
type reader struct {
	ctx      context.Context // of openSource: an io.Reader cannot be given one per call
	blobs    *blobstore.Store
	from     Pinned
	at, size int64
	body     io.ReadCloser // of the piece; nil before the next one is asked for
}

func (r *reader) open() error {
	want := blobstore.Range{Offset: r.at, Length: min(piece, r.size-r.at)}
	body, _, err := r.blobs.Open(r.ctx, video.SourcesContainer, r.from.Blob, want, r.from.ETag)
	if err != nil {
		return changed(fmt.Errorf("read the source: %w", err))
	}
	r.body = body
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for r.at < r.size {
		if r.body == nil {
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p)
		r.at += int64(n)
		if errors.Is(err, io.EOF) {
			err, r.body = r.body.Close(), nil
		}
		if err != nil {
			err = changed(fmt.Errorf("read the source: %w", err))
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// Close reads the piece to its end, because storage keeps files open for a reply that is
// not.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, r.body)
	return r.body.Close()
}

// changed returns the permanent failure for a blob that has another version.
func changed(err error) error {
	if errors.Is(err, blobstore.ErrChanged) {
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	}
	return err
}
