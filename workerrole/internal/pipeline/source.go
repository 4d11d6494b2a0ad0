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
	from, size, err := pin(ctx, blobs, from)
	if err != nil {
		return ffmpeg.Source{}, from, err
	}
	// ctx, and not the request's: a piece is read to its end though ffmpeg went away.
	source, err := ffmpeg.Serve(ctx, size, func(_ context.Context, offset int64) (io.ReadCloser, error) {
		r := &reader{ctx: ctx, blobs: blobs, from: from, at: offset, size: size}
		return r, r.open() // so that a source that is away is known before the first byte is promised
	})
	source.Demuxer = demuxer
	return source, from, err
}

// pin names the version of a blob that is to be read, which is the one that is
// there when nobody noted one, and returns its size in bytes.
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

// piece is the most that one request asks for: a block of an upload. ffmpeg asks
// for everything from a byte on, reads a little and goes away, again and again. A
// request for all the rest makes Azurite open a file for each block of it, and it
// never closes those that are not read to their end: after some eighty runs on an
// hour of film it has no files left and answers no read any more.
const piece = 4 << 20

// reader reads one version of a blob from a byte on, piece by piece. It finds out
// in the middle, too, that the blob has changed: every request names the version.
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

// Close reads the piece to its end, so that its connection and the files behind it
// are free again.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, r.body)
	return r.body.Close()
}

// changed turns the refusal of another version into the permanent failure that
// it is.
func changed(err error) error {
	if errors.Is(err, blobstore.ErrChanged) {
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	}
	return err
}
