// Package upload gets the bytes of a video into storage, as parts that are written once
// (package sourceparts), in one of two ways, and then promises the probe:
//
//   - through the web role, as one stream ([Service.Put]);
//   - straight to the blobs with valet keys ([Service.Begin], [Service.Complete]): for
//     each part a short SAS that creates its blob and does nothing else, and a list of
//     what is there already, so that a broken upload goes on where it stopped (paper row
//     Q14).
//
// Order: parts, then manifest, then row and outbox in one transaction, then the message.
// A crash in between leaves parts in state awaiting_upload, and repeating the request
// finds them.
//
// Next: shared/videostore, where Uploaded is.
package upload

import (
	"context"
	"crypto/md5" //nolint:gosec // the checksum of the protocol (Content-MD5), not a secret
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// MaxSize is the largest file that is taken, in bytes.
const MaxSize = 5 << 30

// Early begins work on an upload that is still going on: package early.
type Early interface {
	// Wanted are the parts that work waits for, in the order in which to send them.
	Wanted(v video.Video) []int
	// Arrived tells of the parts that are held, ascending, and returns the video with what
	// came of it. Safe to repeat.
	Arrived(ctx context.Context, id video.ID, held []sourceparts.Part) (videostore.Record, error)
}

// Service is safe for concurrent use.
type Service struct {
	// Early, if set, is told of what has arrived. Else work begins when an upload is complete.
	Early Early

	account *azstorage.Account
	blobs   *blobstore.Store
	videos  *videostore.Store
	locks   uploadLocks
	memory  *memory
}

// New returns the service of the account; its containers must exist. Uploads that
// pass through it have memory bytes for their buffers, all together: MinMemory at
// least, and 12 MiB for each upload that shall be fast.
func New(account *azstorage.Account, blobs *blobstore.Store, videos *videostore.Store, memory int64) *Service {
	return &Service{account: account, blobs: blobs, videos: videos, locks: uploadLocks{active: map[video.ID]*uploadLock{}}, memory: newMemory(memory)}
}

// Body is a file on its way in.
type Body struct {
	Reader io.Reader
	Size   int64  // bytes promised; the reader fails when fewer come
	MD5    []byte // 16 bytes, or nil: checked before anything is committed (Q12)

	// Interrupt makes a Read that waits for the client return; may be nil.
	Interrupt func()
}

// Put streams a whole file into parts and starts the processing. It takes one to three
// parts of memory whatever the size, and is refused with 429 too_busy when all uploads
// together have none to spare. The first bytes are looked at before anything is stored.
// When the reader fails the parts that arrived stay, and the video keeps waiting. Safe to
// repeat until it succeeds; afterwards the video has its source and another one is
// refused.
func (s *Service) Put(ctx context.Context, id video.ID, body Body) (videostore.Record, error) {
	if body.Size > MaxSize {
		return videostore.Record{}, tooLarge()
	}
	rec, err := s.awaiting(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	if announced := rec.Video.SizeBytes; announced > 0 && announced != body.Size {
		return videostore.Record{}, sizeMismatch(announced, body.Size)
	}
	if err := s.room(ctx, rec.Video, body.Size); err != nil { // before the body is asked for
		return videostore.Record{}, err
	}
	buffers, err := s.memory.reserve(ctx)
	if err != nil {
		return videostore.Record{}, err
	}
	defer buffers.close()
	in := newIntake(body)
	head, err := in.peek(video.HeadBytes)
	if err != nil {
		return videostore.Record{}, err
	}
	if err := sniff(head); err != nil {
		return videostore.Record{}, err
	}
	// net/http ends ctx when the connection breaks, but parts that arrived whole
	// are worth storing: what ends this upload is its reader.
	turn, end := s.locks.take(context.WithoutCancel(ctx), id)
	defer end()
	if body.Interrupt != nil {
		defer context.AfterFunc(turn, body.Interrupt)()
	}
	rec, err = s.putParts(turn, rec, in, body.Size, buffers)
	switch {
	case errors.Is(context.Cause(turn), ErrReplaced):
		return videostore.Record{}, problem.New(problem.UploadConflict, "A newer upload of this video took over.")
	case in.err != nil: // the client's side broke, whatever the storage layer made of it
		return videostore.Record{}, in.err
	case err != nil:
		return videostore.Record{}, fmt.Errorf("store source of %s: %w", id, err)
	}
	return s.completeParts(context.WithoutCancel(ctx), rec.Video, nil)
}

// Complete checks that all of the upload is there, and starts the processing. sums, if
// there are any, are the MD5 of all parts as the client has them. Safe to repeat.
func (s *Service) Complete(ctx context.Context, id video.ID, sums [][]byte) (videostore.Record, error) {
	rec, err := s.videos.Get(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	switch {
	case rec.Video.State.Gone():
		return videostore.Record{}, videostore.ErrNotFound
	case rec.Video.State != video.AwaitingUpload:
		return s.videos.Uploaded(ctx, id, "", "") // repeated, or refused
	case rec.Video.Upload == nil:
		return videostore.Record{}, incomplete("Nothing has been uploaded.")
	}
	return s.completeParts(ctx, rec.Video, sums)
}

// room reserves the bytes of an upload from its owner's quota, or returns a
// *videostore.QuotaError. Announced ones are reserved already.
func (s *Service) room(ctx context.Context, v video.Video, size int64) error {
	if v.SizeBytes == size {
		return nil
	}
	v.SizeBytes = size
	return s.videos.Reserve(ctx, v)
}

// awaiting returns the video if it waits for its bytes.
func (s *Service) awaiting(ctx context.Context, id video.ID) (videostore.Record, error) {
	rec, err := s.videos.Get(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	switch {
	case rec.Video.State == video.AwaitingUpload:
		return rec, nil
	case rec.Video.State.Gone():
		return videostore.Record{}, videostore.ErrNotFound
	}
	return videostore.Record{}, notAwaiting()
}

func notAwaiting() error {
	return problem.New(problem.StateConflict, "The video is not waiting for its bytes.")
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

func incomplete(format string, args ...any) error {
	return problem.New(problem.UploadIncomplete, format, args...)
}
