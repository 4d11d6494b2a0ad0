package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Index makes the catalogue, the search index and the tie to a race follow a
// video's META row.
//
//	Reads   META
//	Writes  tables catalog, recent, terms, postings, variants, registrations (VIDEO: rows)
//	Repeat  makes the same rows: safe any number of times, in any order
//	Why     the copies live in other partitions than the truth, so no
//	        transaction can keep them equal; this step does, in the end (T8)
type Index struct {
	Videos  *videostore.Store
	Catalog *catalog.Catalog
	Search  *searchindex.Index
	Races   *registrations.Store
}

// Name implements pipeline.Step.
func (Index) Name() string { return workflow.StepIndex }

// Run implements pipeline.Step.
func (s Index) Run(ctx context.Context, w *pipeline.Work) (none videostore.Commit, _ error) {
	id := w.Step.Key.ID
	var seen []time.Time // versions of META that the indexes have followed
	current := func(ctx context.Context) (video.Video, bool, error) {
		rec, err := s.Videos.Get(ctx, id)
		if errors.Is(err, videostore.ErrNotFound) {
			return video.Video{}, false, nil
		}
		seen = append(seen, rec.Video.UpdatedAt)
		return rec.Video, err == nil, err
	}
	// One that has to wait for another run does not keep the others from hiding
	// a video.
	listed := s.Catalog.Sync(ctx, id, current)
	failpoint.Hit("index/catalogued")
	if err := errors.Join(listed, s.Search.Sync(ctx, id, current), s.Races.Sync(ctx, id, current)); err != nil {
		return none, waitIfBusy(fmt.Errorf("index %s: %w", id, err))
	}
	failpoint.Hit("index/indexed")
	if len(seen) == 0 {
		return none, nil
	}
	// The oldest version is what all are sure to have seen. The reconciler
	// sends the item again while META is newer, should its message be lost.
	return none, s.Videos.MarkIndexed(ctx, id, slices.MinFunc(seen, time.Time.Compare))
}

// waitIfBusy puts the item back without cost when another indexing run of the
// same video, alive or killed, has to end first.
func waitIfBusy(err error) error {
	if errors.Is(err, indexrows.ErrBusy) || errors.Is(err, indexrows.ErrContended) {
		return workqueue.Snooze(indexPause, err.Error())
	}
	return err
}

// indexPause is how long an indexing run is given to end.
const indexPause = 3 * time.Second
