package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

func previewKey(key workflow.Key) string {
	return fmt.Sprintf("PREVIEW:%05d:%s:%05d", key.Generation, key.Step, key.Index)
}

// BeginPreview returns what a preview of a chunk is made from. Nothing is claimed: previews
// of a chunk show the same, and keep no worker from making the chunk itself. there says that
// it has a preview already. ErrDone when the chunk is committed, ErrGone when the video no
// longer wants it.
func (s *Store) BeginPreview(ctx context.Context, key workflow.Key) (rec Record, plan video.Plan, there bool, _ error) {
	view, err := s.View(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !wanted(key, view.Video) {
		return rec, plan, false, ErrGone
	}
	if err != nil {
		return rec, plan, false, err
	}
	if step, found := view.StepOf(key); found && step.State == StepDone {
		return rec, plan, false, ErrDone
	}
	plan, found := view.Plans[key.Generation]
	if !found || key.Index >= len(plan.Chunks) {
		return rec, plan, false, ErrGone
	}
	_, there = view.Previews[key.Generation][key.Index]
	return view.Record, plan, there, nil
}

// AddPreview writes what can be watched of a chunk, in the place of an earlier preview.
// META is not written, because users hold its ETag; a row that meets a purge is found by
// Sweep, for the video has a mark while it is processed. Safe to repeat.
func (s *Store) AddPreview(ctx context.Context, key workflow.Key, preview video.Preview) error {
	_, err := s.videos.Upsert(ctx, tablestore.Entity{
		PartitionKey: string(key.ID), RowKey: previewKey(key), Props: tablestore.Props(struct{ Doc video.Preview }{preview}),
	})
	if err != nil {
		return fmt.Errorf("write the preview of %s: %w", key, err)
	}
	return nil
}

// Previewed returns the previews that are still of use to a viewer: their chunk, or the
// next one, is not committed.
func (v View) Previewed(generation int) (previews []video.Preview) {
	plan, done := v.Plans[generation], map[int]bool{}
	for _, s := range v.Steps {
		if s.Key.Generation == generation && s.State == StepDone && s.Key.Declared().Makes == workflow.Pictures {
			done[s.Key.Index] = true
		}
	}
	for chunk, preview := range v.Previews[generation] {
		if !done[chunk] || chunk+1 < len(plan.Chunks) && !done[chunk+1] {
			previews = append(previews, preview)
		}
	}
	return previews
}
