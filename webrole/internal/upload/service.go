// Package upload gets the bytes of a video into its source blob, in one of two
// ways, and then promises the probe:
//
//   - through the web role, streamed in blocks ([Service.Put]);
//   - straight to the blob with a valet key ([Service.Key], [Service.Complete]):
//     a short write-only SAS, and the numbers of the blocks that are there
//     already, so that a broken upload goes on where it stopped (paper row Q14).
//
// Order: blob, then row and outbox in one transaction, then the message. A crash
// in between leaves a committed blob in state awaiting_upload, and repeating the
// request finds it.
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
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// MaxSize is the largest file that is taken, in bytes.
const MaxSize = 5 << 30

// keyLife is how long a valet key opens: long enough for some blocks over a slow
// line, short enough to be worthless soon. Clients ask for another.
const keyLife = 15 * time.Minute

// Service is safe for concurrent use.
type Service struct {
	account *azstorage.Account
	blobs   *blobstore.Store
	videos  *videostore.Store
	turns   turns
	memory  *memory
}

// New returns the service of the account; its containers must exist. Uploads that
// pass through it have memory bytes for their buffers, all together: MinMemory at
// least, and 12 MiB for each upload that shall be fast.
func New(account *azstorage.Account, blobs *blobstore.Store, videos *videostore.Store, memory int64) *Service {
	return &Service{account: account, blobs: blobs, videos: videos, turns: turns{active: map[video.ID]*turn{}}, memory: newMemory(memory)}
}

// Body is a file on its way in.
type Body struct {
	Reader io.Reader
	Size   int64  // bytes promised; the reader fails when fewer come
	MD5    []byte // 16 bytes, or nil: checked before anything is committed (Q12)

	// Interrupt makes a Read that waits for the client return; may be nil.
	Interrupt func()
}

// Put streams a whole file into the source blob and starts the processing. It
// takes one to three blocks of memory whatever the size, and is refused with 429
// too_busy when all uploads together have none to spare. The first bytes are looked at before
// anything is stored. When the reader fails the blocks that arrived stay,
// uncommitted, and the video keeps waiting. Safe to repeat until it succeeds;
// afterwards the video has its source and another one is refused.
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
	head, err := in.peek(sniffLen)
	if err != nil {
		return videostore.Record{}, err
	}
	if err := sniff(head); err != nil {
		return videostore.Record{}, err
	}
	// net/http ends ctx when the connection breaks, but blocks that arrived whole
	// are worth storing: what ends this upload is its reader.
	turn, end := s.turns.take(context.WithoutCancel(ctx), id)
	defer end()
	if body.Interrupt != nil {
		defer context.AfterFunc(turn, body.Interrupt)()
	}
	var etag string
	inParts := rec.Video.Upload != nil
	if inParts {
		rec, err = s.putParts(turn, rec, in, body.Size, buffers)
	} else {
		etag, err = s.store(turn, id, in, body.Size, buffers)
	}
	switch {
	case errors.Is(context.Cause(turn), ErrReplaced):
		return videostore.Record{}, problem.New(http.StatusConflict, problem.UploadConflict, "A newer upload of this video took over.")
	case in.err != nil: // the client's side broke, whatever the storage layer made of it
		return videostore.Record{}, in.err
	case azstorage.HasCode(err, "InvalidBlockList", "InvalidBlobOrBlock"), errors.Is(err, blobstore.ErrExists), errors.Is(err, blobstore.ErrChanged):
		return videostore.Record{}, problem.New(http.StatusConflict, problem.UploadConflict, "Another upload of this video came in between.").Because(err)
	case err != nil:
		return videostore.Record{}, fmt.Errorf("store source of %s: %w", id, err)
	case inParts:
		return s.completeParts(context.WithoutCancel(ctx), rec.Video, nil)
	}
	return s.videos.Uploaded(context.WithoutCancel(ctx), id, body.Size, etag)
}

// store puts in into the source blob, unless somebody else does meanwhile:
// blobstore.ErrExists or ErrChanged. A blob that is there already is left from an
// upload whose web role died before it could say so; it is replaced. Returns the
// ETag of what was committed.
func (s *Service) store(ctx context.Context, id video.ID, in io.Reader, size int64, buffers *buffers) (etag string, _ error) {
	o := blobstore.Options{ContentType: sourceType, IfNoneMatch: true}
	left, err := s.blobs.Head(ctx, video.SourcesContainer, video.SourceBlob(id))
	switch {
	case err == nil:
		o.IfNoneMatch, o.IfMatch = false, left.ETag
	case !errors.Is(err, blobstore.ErrNotFound):
		return "", err
	}
	return s.stream(ctx, id, in, size, buffers, o)
}

// Key is what a client needs to put blocks into the source blob itself.
type Key struct {
	URL     string
	Expires time.Time
	Held    []int // numbers of the blocks that need not be sent again, ascending
}

// Key returns a valet key for a video that waits for its bytes. The list of
// blocks is read with our own credential, so the key need not be able to read.
func (s *Service) Key(ctx context.Context, id video.ID) (Key, error) {
	rec, err := s.awaiting(ctx, id)
	if err != nil {
		return Key{}, err
	}
	blocks, err := s.staged(ctx, id)
	if err != nil {
		return Key{}, err
	}
	url, err := s.account.SignWrite(ctx, video.SourcesContainer, video.SourceBlob(id), keyLife)
	if err != nil {
		return Key{}, fmt.Errorf("sign upload of %s: %w", id, err)
	}
	key := Key{URL: url, Expires: time.Now().Add(keyLife).UTC().Truncate(time.Second), Held: []int{}}
	for _, b := range blocks {
		if whole(b, rec.Video.SizeBytes) {
			key.Held = append(key.Held, b.Index)
		}
	}
	return key, nil
}

// whole reports whether a block has the length that its place in the file asks
// for. Of a file of unknown size only full blocks count.
func whole(b blobstore.Block, size int64) bool {
	if size <= 0 {
		return b.Size == blobstore.BlockSize
	}
	return b.Size == min(blobstore.BlockSize, size-int64(b.Index)*blobstore.BlockSize)
}

// Complete checks that all of the upload is there, and starts the processing. sums, if
// there are any, are the MD5 of all parts as the client has them. Safe to repeat.
func (s *Service) Complete(ctx context.Context, id video.ID, sums [][]byte) (videostore.Record, error) {
	rec, err := s.videos.Get(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	switch {
	case rec.Video.State == video.Deleting:
		return videostore.Record{}, videostore.ErrNotFound
	case rec.Video.State != video.AwaitingUpload:
		return s.videos.Uploaded(ctx, id, rec.Video.SizeBytes, rec.Video.SourceETag) // repeated, or refused
	case rec.Video.Upload != nil:
		return s.completeParts(ctx, rec.Video, sums)
	}
	// A request may be repeated while the first still runs. Both must end with one
	// version, so a commit is for whoever finds the blob as it was before.
	before, err := s.blobs.Head(ctx, video.SourcesContainer, video.SourceBlob(id))
	if err != nil && !errors.Is(err, blobstore.ErrNotFound) {
		return videostore.Record{}, fmt.Errorf("look for an upload of %s: %w", id, err)
	}
	blocks, err := s.staged(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	var etag string // of what was just committed; empty: of whatever is there
	if len(blocks) > 0 {
		if etag, err = s.commit(ctx, rec.Video, blocks, before.ETag); err != nil {
			return videostore.Record{}, err
		}
	}
	found, err := s.verify(ctx, rec.Video, etag)
	if err != nil {
		return videostore.Record{}, err
	}
	// The holder of the key may write the blob again at any time. What was looked
	// at is this version, and only it will be processed.
	return s.videos.Uploaded(ctx, id, found.Size, found.ETag)
}

// commit makes the blob of its blocks and returns the new version, or "" when
// somebody else was faster. before is the version that is there; empty: none.
func (s *Service) commit(ctx context.Context, v video.Video, blocks []blobstore.Block, before string) (etag string, err error) {
	var size int64
	ids := make([]string, len(blocks))
	for i, b := range blocks {
		if b.Index != i {
			return "", incomplete("Block %d is missing.", i)
		}
		ids[i] = b.ID
		size += b.Size
	}
	switch {
	case size > MaxSize:
		return "", tooLarge()
	case v.SizeBytes > 0 && size != v.SizeBytes:
		return "", incomplete("%d of %d bytes are here.", size, v.SizeBytes)
	}
	etag, err = s.blobs.Commit(ctx, video.SourcesContainer, video.SourceBlob(v.ID), ids,
		blobstore.Options{ContentType: sourceType, IfMatch: before, IfNoneMatch: before == ""})
	if errors.Is(err, blobstore.ErrExists) || errors.Is(err, blobstore.ErrChanged) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("commit blocks of %s: %w", v.ID, err)
	}
	return etag, nil
}

// verify looks at the committed blob, for its holder of the key may have put
// anything there, and says which version was looked at: etag, if it is not empty.
// What is not a video is removed.
func (s *Service) verify(ctx context.Context, v video.Video, etag string) (blobstore.Info, error) {
	name := video.SourceBlob(v.ID)
	body, info, err := s.blobs.Open(ctx, video.SourcesContainer, name, blobstore.Range{Length: sniffLen}, etag)
	if azstorage.IsNotFound(err) {
		return blobstore.Info{}, incomplete("Nothing has been uploaded.")
	}
	if status, _, _ := azstorage.Describe(err); status == http.StatusRequestedRangeNotSatisfiable { // an empty blob
		return blobstore.Info{}, s.refuse(ctx, v.ID, sniff(nil))
	}
	if errors.Is(err, blobstore.ErrChanged) {
		return blobstore.Info{}, problem.New(http.StatusConflict, problem.UploadConflict, "Another upload of this video came in between.").Because(err)
	}
	if err != nil {
		return blobstore.Info{}, fmt.Errorf("look at upload of %s: %w", v.ID, err)
	}
	head, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return blobstore.Info{}, fmt.Errorf("look at upload of %s: %w", v.ID, err)
	}
	switch {
	case info.Size > MaxSize:
		return blobstore.Info{}, s.refuse(ctx, v.ID, tooLarge())
	case v.SizeBytes > 0 && info.Size != v.SizeBytes:
		return blobstore.Info{}, s.refuse(ctx, v.ID, sizeMismatch(v.SizeBytes, info.Size))
	}
	if err := sniff(head); err != nil {
		return blobstore.Info{}, s.refuse(ctx, v.ID, err)
	}
	if err := s.room(ctx, v, info.Size); err != nil {
		return blobstore.Info{}, s.refuse(ctx, v.ID, err)
	}
	return info, nil
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

// refuse removes an upload and returns why.
func (s *Service) refuse(ctx context.Context, id video.ID, why error) error {
	if err := s.blobs.Delete(ctx, video.SourcesContainer, video.SourceBlob(id)); err != nil {
		return fmt.Errorf("remove refused upload of %s (%w): %w", id, why, err)
	}
	return why
}

// staged lists uncommitted blocks in order; none when the blob was never written to.
func (s *Service) staged(ctx context.Context, id video.ID) ([]blobstore.Block, error) {
	blocks, err := s.blobs.StagedBlocks(ctx, video.SourcesContainer, video.SourceBlob(id))
	if azstorage.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list blocks of %s: %w", id, err)
	}
	return blocks, nil
}

// awaiting returns the video if it waits for its bytes.
func (s *Service) awaiting(ctx context.Context, id video.ID) (videostore.Record, error) {
	rec, err := s.videos.Get(ctx, id)
	if err != nil {
		return videostore.Record{}, err
	}
	switch rec.Video.State {
	case video.AwaitingUpload:
		return rec, nil
	case video.Deleting:
		return videostore.Record{}, videostore.ErrNotFound
	}
	return videostore.Record{}, notAwaiting()
}

func notAwaiting() error {
	return problem.New(http.StatusConflict, problem.StateConflict, "The video is not waiting for its bytes.")
}

const sourceType = "application/octet-stream"

// ParseMD5 reads a Content-MD5 header; empty means that there is none.
func ParseMD5(header string) ([]byte, error) {
	if header == "" {
		return nil, nil
	}
	sum, err := base64.StdEncoding.DecodeString(header)
	if err != nil || len(sum) != md5.Size {
		return nil, problem.New(http.StatusBadRequest, problem.InvalidChecksum, "Content-MD5 is not 16 bytes in base64.")
	}
	return sum, nil
}

func tooLarge() error {
	return problem.New(http.StatusRequestEntityTooLarge, problem.FileTooLarge, "A file may have at most %d bytes.", int64(MaxSize))
}

func sizeMismatch(announced, got int64) error {
	return problem.New(http.StatusBadRequest, problem.SizeMismatch, "%d bytes were announced and %d came.", announced, got)
}

func incomplete(format string, args ...any) error {
	return problem.New(http.StatusConflict, problem.UploadIncomplete, format, args...)
}
