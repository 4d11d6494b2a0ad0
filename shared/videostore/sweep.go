package videostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Sweep removes rows of a video that has no META, and returns how many. A worker may
// insert a step row, or the reconciler an outbox row, while the video is being purged,
// and be killed before it sees that META is gone. Nothing else would find such a row,
// because no query goes over all videos. So the purge leaves the video's mark in table
// "inflight", and the reconciler calls Sweep when that mark is old. Rows that only the
// web role writes stay. A video with META is left alone. Safe to repeat.
func (s *Store) Sweep(ctx context.Context, id video.ID) (removed int, _ error) {
	rows, err := collect(s.videos.Query(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange}))
	if err != nil {
		return 0, fmt.Errorf("look for rows that are left of %s: %w", id, err)
	}
	var left []tablestore.Entity
	for _, row := range rows {
		switch kind, _, _ := strings.Cut(row.RowKey, ":"); kind {
		case metaKey:
			return 0, nil
		case "NEXT", "OUT", "PART", "PLAN", "PREVIEW":
			left = append(left, row)
		default:
			if workflow.IsRow(kind) {
				left = append(left, row)
			}
		}
	}
	if err := s.deleteAsRead(ctx, left); err != nil {
		return 0, fmt.Errorf("remove rows that are left of %s: %w", id, err)
	}
	return len(left), nil
}

// DropGeneration removes plan, parts and steps of a generation that is not needed any
// more: see View.Keeps. Its clips stay. The rows go first and the blobs later, when no
// row names them: a crash in between leaves blobs that the janitor finds. In the other
// order it would leave rows whose blobs are missing. Safe to repeat.
func (s *Store) DropGeneration(ctx context.Context, id video.ID, generation int) error {
	for _, kind := range []string{"STEP", "PART", "PREVIEW", "NEXT", "PLAN"} {
		prefix := fmt.Sprintf("%s:%05d", kind, generation)
		rows, err := collect(s.videos.Query(ctx, tablestore.Query{
			PartitionKey: string(id), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		}))
		if err == nil {
			err = s.deleteAsRead(ctx, rows)
		}
		if err != nil {
			return fmt.Errorf("remove generation %d of %s: %w", generation, id, err)
		}
	}
	return nil
}

// DropRequest removes the row of a step on request (a clip), if the row is
// as it was read. The janitor then finds that no row names its blob. False when the row
// has changed and stays. Safe to repeat.
func (s *Store) DropRequest(ctx context.Context, asked Step) (bool, error) {
	err := s.videos.Delete(ctx, string(asked.Key.ID), asked.Key.RowKey(), asked.etag)
	if errors.Is(err, tablestore.ErrChanged) {
		return false, nil
	}
	if err != nil && !isStale(err) {
		return false, fmt.Errorf("remove %s: %w", asked.Key, err)
	}
	return true, nil
}

// deleteAsRead deletes rows of one partition in the versions that were read, as many at
// once as a transaction takes. Another leader may do the same, so rows that have changed
// or are gone are no error: the next pass looks again.
func (s *Store) deleteAsRead(ctx context.Context, rows []tablestore.Entity) error {
	for len(rows) > 0 {
		n := min(len(rows), tablestore.MaxBatchOps)
		ops := make([]tablestore.Op, n)
		for i, row := range rows[:n] {
			ops[i] = tablestore.Op{Kind: tablestore.OpDelete, Entity: row, IfMatch: row.ETag}
		}
		if _, err := s.videos.Submit(ctx, ops); err != nil && !isStale(err) {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
