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

	"golang.org/x/sync/semaphore"

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
	parts   *semaphore.Weighted // that may be in memory
}

// New returns the service of the account; its containers must exist. Uploads that pass
// through it have memory bytes for their buffers, all together: MinMemory for each.
func New(account *azstorage.Account, blobs *blobstore.Store, videos *videostore.Store, memory int64) *Service {
	return &Service{account: account, blobs: blobs, videos: videos, parts: semaphore.NewWeighted(memory / MinMemory)}
}

// Complete checks that all of the upload is there, and starts the processing. sums, if
// there are any, are the MD5 of all parts as the client has them. Safe to repeat.
func (s *Service) Complete(ctx context.Context, v video.Video, sums [][]byte) (videostore.Record, error) {
	switch {
	case v.State != video.AwaitingUpload:
		return s.videos.Uploaded(ctx, v.ID, "", "") // repeated, or refused
	case v.Upload == nil:
		return videostore.Record{}, problem.New(problem.UploadIncomplete, "Nothing has been uploaded.")
	}
	return s.completeParts(ctx, v, sums)
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

// sniff refuses what certainly is no video, such as text, as early as can be, before
// all of it was sent. Of everything else the probe says what it is.
func sniff(head []byte) error {
	if kind, is := video.OtherKind(head); is {
		return video.Fail(video.UnsupportedMedia, "The file is not a video: it is %s. A video may be in %s.", kind, video.ContainerNames())
	}
	return nil
}
