// Package upload gets the bytes of a video into storage, as parts that are written once (package
// sourceparts), and then promises the probe: through the web role, as one stream ([Service.Put]),
// or straight to the blobs with valet keys ([Service.Begin], [Service.Complete]), where a broken
// upload goes on where it stopped (paper row Q14): docs/patterns/valet-key-upload.md.
//
// Order: parts, then manifest, then row and outbox in one transaction, then the message. A crash
// in between leaves parts in state awaiting_upload, and repeating the request finds them.
//
// Next: shared/videostore, where Uploaded is.
package upload

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// MaxSize is the largest file that is taken, in bytes.
const MaxSize = 5 << 30

// Service is safe for concurrent use.
type Service struct {
	// Arrived, if set, begins work on an upload that is still going on (package early): it is
	// told of the parts that are held, ascending, and returns the video with what came of it. It
	// is safe to repeat. Without it, work begins when an upload is complete.
	Arrived func(ctx context.Context, id engine.ID, held []sourceparts.Part) (videostore.Record, error)

	account *azstore.Account
	blobs   *blobstore.Store
	videos  *videostore.Store
	parts   *semaphore.Weighted // that may be in memory
}

// New returns the service of the account; its containers must exist. Uploads that pass
// through it have memory bytes for their buffers, all together: MinMemory for each.
func New(account *azstore.Account, blobs *blobstore.Store, videos *videostore.Store, memory int64) *Service {
	return &Service{account: account, blobs: blobs, videos: videos, parts: semaphore.NewWeighted(memory / MinMemory)}
}

// ParseMD5 reads a Content-MD5 header; empty means that there is none.
func ParseMD5(header string) ([]byte, error) {
	if header == "" {
		return nil, nil
	}
	sum, err := base64.StdEncoding.DecodeString(header)
	if err != nil || len(sum) != md5.Size {
		return nil, problem.New(problem.InvalidChecksum, "Content-MD5 is not 16 bytes in base64.")
	}
	return sum, nil
}

func tooLarge() error {
	return problem.New(problem.FileTooLarge, "A file may have at most %d bytes.", int64(MaxSize))
}

func sizeMismatch(announced, got int64) error {
	return problem.New(problem.SizeMismatch, "%d bytes were announced and %d came.", announced, got)
}

// sniff refuses what certainly is no video, such as text, as early as can be, before
// all of it was sent. Of everything else the probe says what it is.
func sniff(head []byte) error {
	if kind, is := video.OtherKind(head); is {
		return engine.Fail(video.UnsupportedMedia, "The file is not a video: it is %s. A video may be in %s.", kind, video.ContainerNames())
	}
	return nil
}

// Put streams a whole file of size bytes into parts and starts the processing. body fails when
// fewer come. md5sum is 16 bytes, or nil: checked before anything is committed (Q12). Put takes
// the memory of one
// part whatever the size, and is refused with 429 too_busy when all uploads together have
// none to spare. The first bytes are looked at before anything is stored. When the reader
// fails the parts that arrived stay, and the video keeps waiting. Safe to repeat until it
// succeeds; afterwards the video has its source and another one is refused.
func (s *Service) Put(ctx context.Context, rec videostore.Record, body io.Reader, size int64, md5sum []byte) (none videostore.Record, _ error) {
	id, announced := rec.Subject.ID, rec.Subject.SizeBytes
	switch {
	case rec.Subject.State != engine.AwaitingUpload:
		return none, engine.ErrState
	case size > MaxSize:
		return none, tooLarge()
	case announced > 0 && announced != size:
		return none, sizeMismatch(announced, size)
	}
	wanted := rec.Subject
	wanted.SizeBytes = size
	if err := s.videos.Quotas.Reserve(ctx, wanted); err != nil { // before the body is asked for
		return none, err
	}
	if err := s.reserve(); err != nil {
		return none, err
	}
	defer s.parts.Release(1)
	sum := md5.New() //nolint:gosec // see the import
	r := bufio.NewReaderSize(io.TeeReader(body, sum), 64<<10)
	head, err := r.Peek(int(min(video.HeadBytes, size)))
	if err != nil {
		return none, cutOff(err)
	}
	if err := sniff(head); err != nil {
		return none, err
	}
	// net/http ends ctx when the connection breaks, but parts that arrived whole are worth
	// storing: what ends this upload is its reader.
	ctx = context.WithoutCancel(ctx)
	rec, err = s.putParts(ctx, rec, r, size)
	if err == nil && md5sum != nil && !bytes.Equal(sum.Sum(nil), md5sum) {
		// It is unknown which part was changed on the way, and none can be replaced.
		if _, err = s.replaceUpload(ctx, id, rec.Subject.Upload, nil); err == nil {
			return none, problem.New(problem.ChecksumMismatch, "The bytes that arrived do not have the announced MD5.")
		}
	}
	if err != nil {
		return none, fmt.Errorf("store source of %s: %w", id, err)
	}
	return s.Complete(ctx, rec.Subject, nil)
}

// cutOff is the client's part in a body that could not be read to its end.
func cutOff(err error) error {
	if broken, is := errors.AsType[*problem.Error](err); is {
		return problem.New(broken.Code, "%s What arrived is kept: go on with the upload's parts.", broken.Detail).Because(err)
	}
	return fmt.Errorf("read the file: %w", err)
}

// putParts stores r, of size bytes, part by part, and returns the video with its layout.
// Parts that are held with the same content are not stored again, so an upload that broke
// off goes on, whichever client sent the stored parts (paper row Q14). A part that is held
// with other content is of another file: 409 upload_conflict.
func (s *Service) putParts(ctx context.Context, rec videostore.Record, r io.Reader, size int64) (videostore.Record, error) {
	old := rec.Subject.Upload
	rec, err := s.layOut(ctx, rec, size, old != nil && old.Bytes != size && !old.Started)
	if err != nil {
		return rec, err
	}
	l, _ := sourceparts.LayoutOf(rec.Subject.Upload)
	held, err := sourceparts.Held(ctx, s.blobs, rec.Subject.ID, l)
	if err != nil {
		return rec, err
	}
	there := make(map[int]sourceparts.Part, len(held))
	for _, p := range held {
		there[p.Number] = p
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for n := range l.Count() {
		content := (*buffer)[:l.Range(n).Length]
		if _, err := io.ReadFull(r, content); err != nil {
			return rec, cutOff(err)
		}
		if err := s.putPart(ctx, rec.Subject.ID, l, n, content, there[n].MD5); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// putPart stores one part with its MD5 (Q12), unless it is there with the same content.
// held is the MD5 of what is there, if that is known.
func (s *Service) putPart(ctx context.Context, id engine.ID, l sourceparts.Layout, n int, content, held []byte) error {
	if held == nil {
		_, err := s.blobs.Put(ctx, engine.SourcesContainer, sourceparts.Name(id, l, n), content, blobstore.Options{IfNoneMatch: true})
		if !errors.Is(err, blobstore.ErrExists) {
			return err
		}
		head, err := s.blobs.Head(ctx, engine.SourcesContainer, sourceparts.Name(id, l, n))
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

// MinMemory is the least that New takes for the buffers of all uploads, in bytes: one part.
const MinMemory = sourceparts.PartBytes

// buffers are used again: those of clients that come and leave would be memory that nothing
// bounds until it is collected.
var buffers = sync.Pool{New: func() any { return new(make([]byte, MinMemory)) }}

// reserve takes the buffer of one upload from the memory of all, or returns 429 too_busy.
func (s *Service) reserve() error {
	if !s.parts.TryAcquire(1) {
		return problem.New(problem.TooBusy, "Too many uploads are under way. Nothing was taken; try again soon.")
	}
	return nil
}
