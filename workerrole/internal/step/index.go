package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/workerrole/internal/consumer"
	"github.com/cutroom/cutroom/workerrole/internal/failpoint"
)

// Index makes the catalogue and the search index follow a video's META row.
//
//	Reads   META
//	Writes  tables catalog, recent, terms, postings
//	Repeat  makes the same rows: safe any number of times, in any order
//	Why     the copies live in other partitions than the truth, so no
//	        transaction can keep them equal; this step does, in the end (T8)
type Index struct {
	Videos  *videostore.Store
	Catalog *catalog.Catalog
	Search  *searchindex.Index
}

// Handle implements consumer.Handler.
func (s Index) Handle(ctx context.Context, job *consumer.Job) error {
	id := job.Item.Subject
	current := func(ctx context.Context) (video.Video, bool, error) {
		rec, err := s.Videos.Get(ctx, id)
		if errors.Is(err, videostore.ErrNotFound) {
			return video.Video{}, false, nil
		}
		return rec.Video, err == nil, err
	}
	if err := s.Catalog.Sync(ctx, id, current); err != nil {
		return waitIfBusy(fmt.Errorf("catalogue %s: %w", id, err))
	}
	failpoint.Hit("index/catalogued")
	if err := s.Search.Sync(ctx, id, current); err != nil {
		return waitIfBusy(fmt.Errorf("index %s: %w", id, err))
	}
	failpoint.Hit("index/indexed")
	return nil
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
