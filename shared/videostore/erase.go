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
	rec, err := s.Get(ctx, id)
	there := !errors.Is(err, ErrNotFound)
	if there && (err != nil || rec.Video.State != video.Deleting) {
		return false, err
	}
	claimed, err = s.eraseRows(ctx, id)
	if err != nil || !withMeta {
		return claimed, err
	}
	mark := markOf(rec.Video)
	if there {
		if err = s.forgetKey(ctx, rec.Video); err == nil {
			err = s.videos.Delete(ctx, string(id), metaKey, rec.ETag)
		}
		if errors.Is(err, tablestore.ErrChanged) {
			again, err := s.Erase(ctx, id, withMeta)
			return claimed || again, err
		}
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return claimed, fmt.Errorf("erase video %s: %w", id, err)
		}
	} else if mark, err = s.inflightMark(ctx, id); err != nil { // an earlier delivery removed META
		return claimed, err
	}
	// The mark stays for a while: see Sweep. It says whose the video was.
	mark.Erased = true
	return claimed, errors.Join(s.mark(ctx, mark), s.CountOwned(ctx, id))
}

// eraseRows removes all rows but META.
func (s *Store) eraseRows(ctx context.Context, id video.ID) (claimed bool, _ error) {
	rows := tablestore.Query{PartitionKey: string(id), Filter: "State eq " + tablestore.Quote(string(StepRunning)), Class: tablestore.RowRange}
	running, err := s.videos.First(ctx, rows, 1)
	if err == nil {
		rows.Filter = "RowKey ne " + tablestore.Quote(metaKey)
		_, err = s.videos.Clear(ctx, rows)
	}
	if err != nil {
		return len(running) > 0, fmt.Errorf("erase rows of %s: %w", id, err)
	}
	return len(running) > 0, nil
}

// Sweep removes rows of a video that has no META, and returns how many. A worker may insert
// the row of a step or of a preview while the video is being purged. Nothing else would find
// such a row, because no query goes over all videos. So the purge leaves the video's mark in
// table "inflight", and the reconciler calls Sweep when that mark is old. A video with META is
// left alone. Safe to repeat.
func (s *Store) Sweep(ctx context.Context, id video.ID) (removed int, _ error) {
	if _, err := s.Get(ctx, id); !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	removed, err := s.videos.Clear(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange})
	if err != nil {
		return removed, fmt.Errorf("remove rows that are left of %s: %w", id, err)
	}
	return removed, nil
}

// DropGeneration removes plan, parts and steps of a generation that is not needed any
// more: see View.Keeps. Its clips stay. The rows go first and the blobs later, when no
// row names them: a crash in between leaves blobs that the janitor finds. In the other
// order it would leave rows whose blobs are missing. Safe to repeat.
func (s *Store) DropGeneration(ctx context.Context, id video.ID, generation int) error {
	for _, kind := range []string{"STEP", "PART", "PREVIEW", "NEXT", "PLAN"} {
		prefix := fmt.Sprintf("%s:%05d", kind, generation)
		_, err := s.videos.Clear(ctx, tablestore.Query{
			PartitionKey: string(id), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
		})
		if err != nil {
			return fmt.Errorf("remove generation %d of %s: %w", generation, id, err)
		}
	}
	return nil
}
