package upload

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// partsInFlight is how many parts of one upload are sent at a time; one more is being
// filled, while memory allows. With one buffer they take turns.
const partsInFlight = 2

// Body is a file on its way in. Its reader fails when fewer than Size bytes come.
type Body struct {
	Reader io.Reader
	Size   int64
	MD5    []byte // 16 bytes, or nil: checked before anything is committed (Q12)
}

// intake keeps why a body failed: that is the client's side, whatever storage makes of it.
type intake struct {
	io.Reader
	err error
}

func (in *intake) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return n, err
	case problem.Is(err, problem.RequestTimeout):
		in.err = problem.New(problem.RequestTimeout, "The body came too slowly. What arrived is kept: go on with the upload's parts.").Because(err)
	default:
		in.err = problem.New(problem.BodyIncomplete, "The body ended before its Content-Length. What arrived is kept.").Because(err)
	}
	return n, in.err
}

// Put streams a whole file into parts and starts the processing. It takes one to three
// parts of memory whatever the size, and is refused with 429 too_busy when all uploads
// together have none to spare. The first bytes are looked at before anything is stored.
// When the reader fails the parts that arrived stay, and the video keeps waiting. Safe to
// repeat until it succeeds; afterwards the video has its source and another one is
// refused.
func (s *Service) Put(ctx context.Context, id video.ID, body Body) (none videostore.Record, _ error) {
	if body.Size > MaxSize {
		return none, tooLarge()
	}
	rec, err := s.awaiting(ctx, id)
	if err != nil {
		return none, err
	}
	if announced := rec.Video.SizeBytes; announced > 0 && announced != body.Size {
		return none, sizeMismatch(announced, body.Size)
	}
	if err := s.room(ctx, rec.Video, body.Size); err != nil { // before the body is asked for
		return none, err
	}
	buffers, err := s.memory.reserve(ctx)
	if err != nil {
		return none, err
	}
	defer buffers.close()
	in, sum := &intake{Reader: body.Reader}, md5.New() //nolint:gosec // see above
	r := bufio.NewReaderSize(io.TeeReader(in, sum), 64<<10)
	head, err := r.Peek(int(min(video.HeadBytes, body.Size)))
	if err == nil {
		err = sniff(head)
	}
	if err != nil {
		return none, err
	}
	// net/http ends ctx when the connection breaks, but parts that arrived whole are worth
	// storing: what ends this upload is its reader.
	ctx = context.WithoutCancel(ctx)
	rec, err = s.putParts(ctx, rec, r, body.Size, buffers)
	if err == nil && body.MD5 != nil && !bytes.Equal(sum.Sum(nil), body.MD5) {
		// It is unknown which part was changed on the way, and none can be replaced.
		if _, err = s.replaceUpload(ctx, id, rec.Video.Upload, nil); err == nil {
			return none, problem.New(problem.ChecksumMismatch, "The bytes that arrived do not have the announced MD5.")
		}
	}
	switch {
	case in.err != nil:
		return none, in.err
	case err != nil:
		return none, fmt.Errorf("store source of %s: %w", id, err)
	}
	return s.completeParts(ctx, rec.Video, nil)
}

// putParts stores r, of size bytes, part by part, and returns the video with its layout.
// Parts that are held with the same content are not stored again, so an upload that
// broke off goes on, whichever client sent the stored parts (paper row Q14). A part that is held
// with other content is of another file: 409 upload_conflict.
func (s *Service) putParts(ctx context.Context, rec videostore.Record, r io.Reader, size int64, buffers *buffers) (videostore.Record, error) {
	old := rec.Video.Upload
	rec, err := s.layOut(ctx, rec, size, old != nil && old.Bytes != size && !old.Started)
	if err != nil {
		return rec, err
	}
	l, _ := sourceparts.LayoutOf(rec.Video.Upload)
	held, err := sourceparts.Tidy(ctx, s.blobs, rec.Video.ID, l)
	if err != nil {
		return rec, err
	}
	there := make(map[int]sourceparts.Part, len(held))
	for _, p := range held {
		there[p.Number] = p
	}
	group, put := errgroup.WithContext(ctx)
	group.SetLimit(partsInFlight)
	for n := 0; n < l.Count() && err == nil; n++ {
		var buffer *[]byte
		if buffer, err = buffers.take(put); err != nil {
			break
		}
		content := (*buffer)[:l.Range(n).Length]
		if _, err = io.ReadFull(r, content); err != nil {
			buffers.returnBuffer(buffer)
			break
		}
		group.Go(func() error {
			defer buffers.returnBuffer(buffer)
			return s.putPart(put, rec.Video.ID, l, n, content, there[n].MD5)
		})
	}
	if failed := group.Wait(); failed != nil {
		return rec, failed // it also ended the reading
	}
	return rec, err
}

// putPart stores one part with its MD5 (Q12), unless it is there with the same content.
// held is the MD5 of what is there, if that is known.
func (s *Service) putPart(ctx context.Context, id video.ID, l sourceparts.Layout, n int, content, held []byte) error {
	if held == nil {
		_, err := s.blobs.Put(ctx, video.SourcesContainer, sourceparts.Name(id, l, n), content, blobstore.Options{IfNoneMatch: true})
		if !errors.Is(err, blobstore.ErrExists) {
			return err
		}
		head, err := s.blobs.Head(ctx, video.SourcesContainer, sourceparts.Name(id, l, n))
		if err != nil {
			return err
		}
		if head.Size == int64(len(content)) {
			held = head.MD5
		}
	}
	if sum := md5.Sum(content); !bytes.Equal(sum[:], held) { //nolint:gosec // the checksum of the protocol
		return conflict("Part %d of another file was sent for this video. Begin anew, or upload the file as a video of its own.", n)
	}
	return nil
}

// MinMemory is the least that New takes for the buffers of all uploads, in bytes:
// one part.
const MinMemory = sourceparts.PartBytes

// bufferWait is how long an upload waits for its first buffer before it is refused.
const bufferWait = 2 * time.Second

// memory bounds the buffers of all uploads of this process. An upload holds one
// part from its start to its end, so it never waits for another upload half way, and
// borrows more, one by one, while no upload waits for its first one.
type memory struct {
	parts *semaphore.Weighted
	pool  sync.Pool // of *[]byte: buffers that were used before
}

func newMemory(bytes int64) *memory {
	return &memory{
		parts: semaphore.NewWeighted(bytes / sourceparts.PartBytes),
		pool:  sync.Pool{New: func() any { b := make([]byte, sourceparts.PartBytes); return &b }},
	}
}

// reserve returns the buffers of one upload, or 429 too_busy. Nothing is allocated
// before the first take.
func (m *memory) reserve(ctx context.Context) (*buffers, error) {
	ctx, cancel := context.WithTimeout(ctx, bufferWait)
	defer cancel()
	if err := m.parts.Acquire(ctx, 1); err != nil {
		return nil, problem.New(problem.TooBusy, "Too many uploads are under way. Nothing was taken; try again soon.")
	}
	b := &buffers{memory: m, own: make(chan struct{}, 1)}
	b.own <- struct{}{}
	return b, nil
}

// buffers are those of one upload: its own, which it keeps to its end, and borrowed ones.
type buffers struct {
	memory *memory
	own    chan struct{} // holds something while the own buffer is not in use
}

// take returns a buffer of one part. When none can be borrowed it waits for the upload's own.
func (b *buffers) take(ctx context.Context) (*[]byte, error) {
	select {
	case <-b.own:
	default:
		if b.memory.parts.TryAcquire(1) {
			break
		}
		select {
		case <-b.own:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	buffer, _ := b.memory.pool.Get().(*[]byte)
	return buffer, nil
}

// returnBuffer takes a buffer back: as the own one, or else for the upload that needs it most.
func (b *buffers) returnBuffer(buffer *[]byte) {
	b.memory.pool.Put(buffer)
	select {
	case b.own <- struct{}{}:
	default:
		b.memory.parts.Release(1)
	}
}

// close ends the reservation; every buffer must have been given back.
func (b *buffers) close() { b.memory.parts.Release(1) }
