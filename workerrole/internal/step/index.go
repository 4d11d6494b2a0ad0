package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/videostore"
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
	rec, err := s.Videos.Get(ctx, id)
	if errors.Is(err, videostore.ErrNotFound) {
		return errors.Join(s.Catalog.Remove(ctx, id), s.Search.Remove(ctx, id))
	}
	if err != nil {
		return err
	}
	if err := s.Catalog.Sync(ctx, rec.Video); err != nil {
		return fmt.Errorf("catalogue %s: %w", id, err)
	}
	failpoint.Hit("index/catalogued")
	if err := s.Search.Sync(ctx, rec.Video); err != nil {
		return fmt.Errorf("index %s: %w", id, err)
	}
	failpoint.Hit("index/indexed")
	// The video may have changed while we wrote what we had read. Whoever
	// changed it has promised an index item of their own, which runs after
	// this one or beside it; looking again keeps the two from ending on old rows.
	now, err := s.Videos.Get(ctx, id)
	if errors.Is(err, videostore.ErrNotFound) || err == nil && now.ETag != rec.ETag {
		return s.Handle(ctx, job)
	}
	return err
}
