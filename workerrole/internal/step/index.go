package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Index makes the catalogue and the rows of features follow META.
//
//	Reads   META
//	Writes  tables catalog and recent, those of features
//	Repeat  makes the same rows: safe any number of times, in any order
//	Why     the copies are in other partitions than the truth, so no transaction
//	        covers both; repeating this step makes them equal in the end (T8)
type Index struct {
	Needs
	Features []Feature
}

// Run implements pipeline.Step.
func (s Index) Run(ctx context.Context, w *pipeline.Work) (none videostore.Commit, _ error) {
	id := w.Key.ID
	mark, err := s.Videos.InflightMark(ctx, id)
	if err != nil {
		return none, err
	}
	var seen []time.Time // UpdatedAt of the METAs that were read
	current := func(ctx context.Context) (video.Video, bool, error) {
		rec, err := s.Videos.Get(ctx, id)
		if errors.Is(err, engine.ErrNotFound) {
			return video.Video{}, false, nil
		}
		seen = append(seen, rec.Subject.UpdatedAt)
		return rec.Subject, err == nil, err
	}
	// All are tried: if one has to wait for another run, the others still hide
	// a video at once.
	listed := s.Catalog.Sync(ctx, id, current)
	failpoint.Hit("index/catalogued")
	failed := []error{listed}
	for _, f := range s.Features {
		if f.Index != nil {
			failed = append(failed, f.Index(ctx, id, current))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return none, waitIfBusy(fmt.Errorf("index %s: %w", id, err))
	}
	failpoint.Hit("index/indexed")
	if len(seen) == 0 {
		return none, nil
	}
	// All have followed the oldest META at least. While META is newer, the reconciler
	// sends the item again if its message is lost.
	return none, s.Videos.MarkIndexed(ctx, mark, slices.MinFunc(seen, time.Time.Compare))
}

// waitIfBusy snoozes the item when another run for the same video, in progress or
// killed, has to end first.
func waitIfBusy(err error) error {
	if errors.Is(err, indexrows.ErrBusy) || errors.Is(err, indexrows.ErrContended) {
		return azq.Snooze(indexPause, err.Error())
	}
	return err
}

// indexPause is how long another run is given to end.
const indexPause = 3 * time.Second
