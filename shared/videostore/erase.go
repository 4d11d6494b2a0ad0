package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Erase removes the rows of a deleted video: first all but META, so that no late worker
// can commit. With withMeta it then removes META, and starts again if that has changed.
// A video that is not being deleted is left alone. claimed says that a step was running,
// whose worker may still write a blob. Safe to repeat.
func (s *Store) Erase(ctx context.Context, id video.ID, withMeta bool) (claimed bool, _ error) {
	rows, err := collect(s.videos.Query(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange}))
	if err != nil {
		return false, fmt.Errorf("list rows of %s: %w", id, err)
	}
	var ops []tablestore.Op
	var meta *Record
	for _, row := range rows {
		if row.RowKey == metaKey {
			rec, err := readMeta(row)
			if err != nil {
				return false, err
			}
			if rec.Video.State != video.Deleting {
				return false, nil
			}
			meta = &rec
			continue
		}
		claimed = claimed || row.String("State") == string(StepRunning)
		ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: row, IfMatch: "*"})
	}
	if err := s.videos.SubmitAll(ctx, ops); err != nil && !isStale(err) {
		return claimed, fmt.Errorf("erase rows of %s: %w", id, err)
	}
	if !withMeta {
		return claimed, nil
	}
	if meta != nil {
		if err := errors.Join(s.forgetKey(ctx, meta.Video), s.giveBackAll(ctx, id)); err != nil {
			return claimed, err
		}
		err := s.videos.Delete(ctx, string(id), metaKey, meta.ETag)
		if errors.Is(err, tablestore.ErrChanged) {
			again, err := s.Erase(ctx, id, withMeta) // META changed meanwhile
			return claimed || again, err
		}
		if err != nil && !isStale(err) {
			return claimed, fmt.Errorf("erase video %s: %w", id, err)
		}
	}
	// The mark stays for a while: see Sweep. It says whose the video was.
	if err := s.markErased(ctx, id, meta); err != nil {
		return claimed, err
	}
	return claimed, s.CountOwned(ctx, id)
}

// markErased writes that a video was purged. Without meta, which an earlier delivery
// removed, the mark that is there says whose it was.
func (s *Store) markErased(ctx context.Context, id video.ID, meta *Record) error {
	owner := ""
	if meta != nil {
		owner = meta.Video.Owner
	} else {
		row, err := s.inflight.Get(ctx, inflightPartition(id), string(id))
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return fmt.Errorf("read the mark of %s: %w", id, err)
		}
		owner = row.String("Owner")
	}
	return s.putInflight(ctx, id, map[string]any{"Erased": true, "Owner": owner})
}
