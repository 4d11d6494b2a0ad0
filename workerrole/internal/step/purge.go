package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
)

// Purge removes everything of a deleted video. The tombstone, META in state
// deleting, goes last: as long as it stands every worker finds that the video
// is gone, and a purge that was killed is repeated from the start.
//
//	Writes  nothing; deletes rows, index entries and blobs, in that order:
//	        without rows no late worker can commit, without index entries
//	        nobody finds a video that has no blobs
//	Repeat  safe
type Purge struct {
	Videos  *videostore.Store
	Blobs   *blobstore.Store
	Catalog *catalog.Catalog
	Search  *searchindex.Index
	Races   *registrations.Store
	Views   *views.Counter
	Linger  time.Duration // how long to wait for workers that still ran a step
}

// Handle implements consumer.Handler.
func (s Purge) Handle(ctx context.Context, job *consumer.Job) error {
	key, err := videostore.KeyOf(job.Item)
	if err != nil {
		return workqueue.Permanent(err)
	}
	id := key.ID
	ctx = tablestore.OnRequest(ctx, job.Progress) // as in Index
	rec, err := s.Videos.Get(ctx, id)
	if err != nil && !errors.Is(err, videostore.ErrNotFound) {
		return err
	}
	if err == nil && rec.Video.State != video.Deleting {
		return nil // not ours to remove
	}
	claimed, err := s.Videos.Erase(ctx, id, false)
	if err != nil {
		return err
	}
	// A purge that was killed half way has erased the claims that it saw.
	claimed = claimed || job.DequeueCount > 1 && job.Item.Snoozes == 0
	failpoint.Hit("purge/rows")
	if err := errors.Join(s.Catalog.Remove(ctx, id), s.Search.Remove(ctx, id), s.Races.Remove(ctx, id)); err != nil {
		return waitIfBusy(fmt.Errorf("unlist %s: %w", id, err))
	}
	if err := s.Views.Remove(ctx, id); err != nil {
		return err
	}
	failpoint.Hit("purge/unlisted")
	for _, container := range []string{video.MediaContainer, video.SourcesContainer, video.ClaimsContainer} {
		if _, err := s.Blobs.DeletePrefix(ctx, container, video.Prefix(id)); err != nil {
			return fmt.Errorf("delete blobs of %s: %w", id, err)
		}
		job.Progress()
	}
	failpoint.Hit("purge/blobs")
	if claimed {
		// A worker was in the middle of a step. It will find the tombstone and
		// stop, but may write one more blob: sweep again when it has.
		return workqueue.Snooze(s.Linger, "a worker was still busy with the video")
	}
	_, err = s.Videos.Erase(ctx, id, true)
	return err
}

// Exhausted implements consumer.Exhausted: the reconciler, which sends the item
// again while the tombstone stands, must know that it is poison.
func (s Purge) Exhausted(ctx context.Context, job *consumer.Job, _ error) error {
	if key, err := videostore.KeyOf(job.Item); err == nil {
		return s.Videos.GaveUp(ctx, key.ID, videostore.StepPurge)
	}
	return nil // nobody's step
}
