package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// Pinned is one version of a blob in video.SourcesContainer. A manifest of parts names
// the version of each part, so its own version is that of the whole source.
type Pinned struct {
	Blob string
	ETag string // empty: whatever version is there now; of a manifest: it is not written yet
}

// origin is where the bytes of a source lie.
type origin interface {
	// open reads length bytes from a byte on. It waits for bytes that are still on their
	// way, and fails with a *NotYetError when they do not come.
	open(ctx context.Context, at, length int64) (io.ReadCloser, error)
	// there reports whether length bytes from a byte on can be read without waiting.
	there(at, length int64) bool
	// size is that of the whole source, in bytes.
	size() int64
}

// openSource lets ffmpeg read one version of a blob until ctx ends, and returns the
// version. Anyone who has the valet key of a file in one blob can overwrite it while the
// key is valid, also after the content was verified. So every request names the verified
// version (If-Match). When the blob has another, the run fails with a *video.Failure,
// source_changed. Other errors of a read fail it with an ffmpeg.TroubleError.
func openSource(ctx context.Context, blobs *blobstore.Store, from Pinned, demuxer string) (ffmpeg.Source, Pinned, error) {
	from, whole, err := pin(ctx, blobs, from)
	if err != nil {
		return ffmpeg.Source{}, from, err
	}
	source, err := serve(ctx, whole, demuxer)
	return source, from, err
}

func serve(ctx context.Context, from origin, demuxer string) (ffmpeg.Source, error) {
	ahead := newReadAhead(ctx, from)
	source, err := ffmpeg.Serve(ctx, from.size(), func(_ context.Context, offset int64) (io.ReadCloser, error) {
		return ahead.open(offset)
	})
	source.Demuxer = demuxer
	return source, err
}

// pin returns the version of a source that is complete and is to be read. Without an
// ETag in from that is the version that is there now.
func pin(ctx context.Context, blobs *blobstore.Store, from Pinned) (Pinned, origin, error) {
	if sourceparts.IsManifest(from.Blob) {
		whole, err := complete(ctx, blobs, from)
		return from, whole, err
	}
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Blob)
	if err == nil && from.ETag != "" && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return from, nil, changed(fmt.Errorf("look at the source: %w", err))
	}
	from.ETag = head.ETag
	return from, oneBlob{blobs, from, head.Size}, nil
}

// oneBlob is a source in one blob.
type oneBlob struct {
	blobs *blobstore.Store
	from  Pinned
	bytes int64
}

func (o oneBlob) size() int64             { return o.bytes }
func (o oneBlob) there(int64, int64) bool { return true }

func (o oneBlob) open(ctx context.Context, at, length int64) (io.ReadCloser, error) {
	body, _, err := o.blobs.Open(ctx, video.SourcesContainer, o.from.Blob, blobstore.Range{Offset: at, Length: length}, o.from.ETag)
	return body, err
}

// piece is the most that one request of a reader asks for: a block of an upload.
const piece = 4 << 20

// reader reads a source to its end, piece by piece. Every request names the version, so
// a change of a blob is also noticed in the middle.
type reader struct {
	ctx  context.Context // of openSource: an io.Reader cannot be given one per call
	from origin
	at   int64
	body io.ReadCloser // of the piece; nil before the next one is asked for
}

func (r *reader) open() error {
	body, err := r.from.open(r.ctx, r.at, min(piece, r.from.size()-r.at))
	if err != nil {
		return changed(fmt.Errorf("read the source: %w", err))
	}
	r.body = body
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for r.at < r.from.size() {
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

// changed returns the permanent failure for a blob of a complete upload that has another
// version, or is gone. No later attempt would find it.
func changed(err error) error {
	switch {
	case errors.Is(err, blobstore.ErrChanged):
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	case errors.Is(err, blobstore.ErrNotFound):
		return video.Fail(video.SourceChanged, "The uploaded file, or a part of it, was removed after it had been accepted. Upload it as a new video.")
	}
	return err
}
