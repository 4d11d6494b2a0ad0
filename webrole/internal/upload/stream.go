package upload

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// partsInFlight is how many parts of one upload are sent at a time; one more is being
// filled, while memory allows. With one buffer they take turns.
const partsInFlight = 2

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
	err = s.streamParts(ctx, rec.Video, held, r, buffers)
	if problem.Is(err, problem.ChecksumMismatch) {
		// It is unknown which part was changed on the way, and none can be replaced.
		if _, err := s.replaceUpload(ctx, rec.Video.ID, rec.Video.Upload, nil); err != nil {
			return rec, err
		}
	}
	return rec, err
}

// streamParts is the loop of putParts. Memory is that of buffers.
func (s *Service) streamParts(ctx context.Context, v video.Video, held []sourceparts.Part, r io.Reader, buffers *buffers) error {
	l, _ := sourceparts.LayoutOf(v.Upload)
	there := make(map[int]sourceparts.Part, len(held))
	for _, p := range held {
		there[p.Number] = p
	}
	group, put := errgroup.WithContext(ctx)
	slots := make(chan struct{}, partsInFlight)
	var err error
	for n := range l.Count() {
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
			slots <- struct{}{}
			defer func() { <-slots; buffers.returnBuffer(buffer) }()
			return s.putPart(put, v.ID, l, n, content, there[n].MD5)
		})
	}
	if failed := group.Wait(); failed != nil {
		return failed // it also ended the reading
	}
	if err == nil {
		// One byte more than there is: the reader checks the end, and the checksum.
		_, err = io.ReadFull(r, make([]byte, 1))
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	return err
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

// ErrReplaced says that a newer upload of the same video took over.
var ErrReplaced = errors.New("a newer upload of this video took over")

// uploadLocks lets one upload per video write at a time in this process, and the
// newest one win: a client whose connection died comes back before we notice.
// Two web roles do not know of each other; there the first to commit wins.
type uploadLocks struct {
	mu     sync.Mutex
	active map[video.ID]*uploadLock
}

type uploadLock struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// take ends the upload that is under way, waits for it, and starts the caller's
// turn, which ends with the returned function.
func (t *uploadLocks) take(ctx context.Context, id video.ID) (context.Context, func()) {
	mine := &uploadLock{done: make(chan struct{})}
	ctx, mine.cancel = context.WithCancelCause(ctx)
	for {
		t.mu.Lock()
		other := t.active[id]
		if other == nil {
			t.active[id] = mine
			t.mu.Unlock()
			return ctx, func() {
				t.mu.Lock()
				delete(t.active, id)
				t.mu.Unlock()
				mine.cancel(nil)
				close(mine.done)
			}
		}
		t.mu.Unlock()
		other.cancel(ErrReplaced)
		<-other.done
	}
}
