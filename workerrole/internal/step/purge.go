package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Purge removes everything of a deleted video. The tombstone, META in state deleting,
// goes last: while it is there workers find that the video is deleted, and a purge that
// was killed is repeated from the start.
//
//	Writes  nothing; deletes rows, index entries and blobs, in that order:
//	        without rows no late worker can commit, and without index entries
//	        no request finds a video that has no blobs
//	Repeat  safe
type Purge struct {
	Needs
	Features []Feature
}

// immutablePause is the wait for a policy of the account to allow that a blob is deleted.
const immutablePause = time.Hour

// Run implements pipeline.Step.
func (s Purge) Run(ctx context.Context, w *pipeline.Work) (none videostore.Commit, _ error) {
	id := w.Key.ID
	rec, err := s.Videos.Get(ctx, id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return none, err
	}
	if err == nil && rec.Subject.State != engine.Deleting {
		return none, nil // not deleted
	}
	claimed, err := s.Videos.Erase(ctx, id, false)
	if err != nil {
		return none, err
	}
	// An earlier delivery that was killed may have erased the claims.
	claimed = claimed || w.Again
	failpoint.Hit("purge/rows")
	failed := []error{s.Catalog.Remove(ctx, id)}
	for _, f := range s.Features {
		if f.Purge != nil {
			failed = append(failed, f.Purge(ctx, id))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return none, waitIfBusy(fmt.Errorf("unlist %s: %w", id, err))
	}
	failpoint.Hit("purge/unlisted")
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer, azq.ClaimsContainer} {
		err := s.Blobs.DeletePrefix(ctx, container, engine.Prefix(id))
		if azstore.HasCode(err, bloberror.BlobImmutableDueToPolicy) {
			return none, azq.Snooze(immutablePause, err.Error())
		}
		if err != nil {
			return none, fmt.Errorf("delete blobs of %s: %w", id, err)
		}
		w.Progress()
	}
	failpoint.Hit("purge/blobs")
	if claimed {
		// A worker was running a step. It will find the tombstone and stop, but may
		// write one more blob before that, so the blobs are deleted once more.
		return none, azq.Snooze(s.Linger, "a worker was still busy with the video")
	}
	_, err = s.Videos.Erase(ctx, id, true)
	return none, err
}
