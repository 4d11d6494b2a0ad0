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

// Sweep removes the rows that are left of a video without META: those of a worker
// that claimed a step, or of a reconciler that promised one, in the very moment
// of the purge, and was killed before it looked again. Nothing else would find
// them, for no query goes over all videos. So a purge leaves its mark behind, and
// the reconciler calls this when the mark is old. Rows of the web role stay. A
// video that has META is left alone. Returns how many rows it removed. Safe to
// repeat.
func (s *Store) Sweep(ctx context.Context, id video.ID) (removed int, _ error) {
	rows, err := collect(s.videos.Query(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.PartitionRange}))
	if err != nil {
		return 0, fmt.Errorf("look for rows that are left of %s: %w", id, err)
	}
	var left []tablestore.Entity
	for _, row := range rows {
		switch kind, _, _ := strings.Cut(row.RowKey, ":"); kind {
		case metaKey:
			return 0, nil
		case "NEXT", "OUT", "PART", "PLAN":
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

// DropGeneration removes plan, parts and steps of a generation that is not kept
// any more: see View.Keeps. Its clips stay. Rows first, blobs afterwards, when no
// row names them: a crash in between leaves blobs that the janitor finds again;
// the other order would leave rows that name nothing. Safe to repeat.
func (s *Store) DropGeneration(ctx context.Context, id video.ID, generation int) error {
	for _, kind := range []string{"STEP", "PART", "NEXT", "PLAN"} {
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

// DropRequest removes what somebody asked for, as it was read: the row, so that
// the janitor finds that nobody names its blob. One that changed meanwhile stays,
// and so does one that is already gone. Returns whether it went. Safe to repeat.
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

// deleteAsRead deletes rows of one partition in the versions that were read, as
// many at once as a transaction takes. Another leader may be doing the same, so
// rows that have changed or gone end it without an error: whoever calls comes
// back.
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
