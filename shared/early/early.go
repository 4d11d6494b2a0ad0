// Package early works on an upload before all of it is there. The first step reads the head
// and the end of the file; then chunks are made as their parts arrive. Nothing relies on it:
// what is not made by then is promised when the upload is complete (videostore.Store.Uploaded),
// and no failure before that is final.
//
// The web role tells of parts that have arrived (webrole/internal/upload), and the worker
// role lets steps read what is there (workerrole/internal/pipeline). Each registers
// [Uploads] in its main. Without that, work on a video begins when its upload is complete.
//
// Next: source.go, a file that is still being sent.
package early

import (
	"context"
	"errors"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// maxTries is how often the first step may miss parts. Each try finds what the one before
// could not reach; a file that needs more cannot be read before it is complete.
const maxTries = 6

// Uploads are those that are still going on. Safe for concurrent use.
type Uploads struct {
	videos *videostore.Store
	blobs  *blobstore.Store
}

// New returns the uploads of a storage account.
func New(videos *videostore.Store, blobs *blobstore.Store) *Uploads {
	return &Uploads{videos: videos, blobs: blobs}
}

// Wanted are the parts that the first step waits for, in the order in which to send them: the
// first and the last ones, and those that it missed. The last seconds are rarely in the last
// part alone, and asking for more takes a second.
func (u *Uploads) Wanted(v video.Video) []int {
	layout, inParts := sourceparts.LayoutOf(v.Upload)
	if !inParts {
		return nil
	}
	last := layout.Count() - 1
	wanted := []int{0, last}
	if !v.Upload.Started {
		wanted = append(wanted, max(0, last-1))
	}
	return append(wanted, v.Upload.PriorityParts...)
}

// Arrived promises what can be made of the parts of an upload that are held, ascending. Parts
// that come without a call wait for the next one, or for the end of an early step. Safe to repeat.
func (u *Uploads) Arrived(ctx context.Context, id video.ID, held []sourceparts.Part) (videostore.Record, error) {
	for {
		rec, err := u.videos.Get(ctx, id)
		if err != nil {
			return videostore.Record{}, err
		}
		upload := rec.Video.Upload
		layout, inParts := sourceparts.LayoutOf(upload)
		switch {
		case !inParts || rec.Video.State != video.AwaitingUpload || upload.ProbeTries >= maxTries || len(held) >= layout.Count():
			return rec, nil // nothing can be done, or Uploaded does it all
		case rec.Video.Chunks > 0:
			err = u.promise(ctx, rec, layout, sourceparts.Head(held))
		case upload.Started && len(upload.PriorityParts) == 0: // the first step is promised
			return rec, nil
		case slices.ContainsFunc(u.Wanted(rec.Video), func(n int) bool {
			return !slices.ContainsFunc(held, func(p sourceparts.Part) bool { return p.Number == n })
		}):
			return rec, nil // it would miss one
		default:
			rec, err = u.begin(ctx, rec)
		}
		if !errors.Is(err, videostore.ErrChanged) {
			return rec, err
		}
	}
}

// begin promises the first step, for the first time or because what it missed has come.
func (u *Uploads) begin(ctx context.Context, rec videostore.Record) (videostore.Record, error) {
	return u.videos.Change(ctx, rec.Video.ID, rec.ETag, func(v *video.Video) ([]videostore.OutboxMessage, error) {
		message, upload := u.videos.FirstStep(ctx, v), *v.Upload
		upload.Started, upload.PriorityParts = true, nil
		v.Upload = &upload
		return []videostore.OutboxMessage{message}, nil
	})
}

// promise promises the chunks whose parts are among the first ones.
func (u *Uploads) promise(ctx context.Context, rec videostore.Record, layout sourceparts.Layout, parts int) error {
	plan, err := u.videos.Plan(ctx, rec.Video.ID, rec.Video.Generation)
	if err != nil {
		return err
	}
	return u.videos.PromiseChunks(ctx, rec, plan, reach(plan, layout, parts))
}

// What is read beyond the share of the file that a chunk should take: in seconds of video,
// and in bytes, at most one part. Wrong guesses cost time only: a run waits for bytes that
// are on their way, and one that misses them is thrown away. How often that is was
// measured: decision 0056.
const (
	needSeconds = 1
	needBytes   = 512 << 10
)

// reach is how many chunks can be made of the first parts of an upload, by proportion: half
// of the time needs half of the bytes. The last chunk runs to the end of the file, wherever
// that is, and waits for all of it.
func reach(plan video.Plan, layout sourceparts.Layout, parts int) int {
	for n, chunk := range plan.Chunks {
		share := (plan.FPS.Seconds(chunk.To) + needSeconds) / plan.DurationSeconds
		need := int64(float64(layout.Bytes)*min(1, share)) + min(needBytes, layout.PartBytes)
		if plan.Last(n) || layout.At(min(need, layout.Bytes-1)) >= parts {
			return n
		}
	}
	return 0
}
