package videostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

func previewKey(key workflow.Key) string {
	return fmt.Sprintf("PREVIEW:%05d:%s:%05d", key.Generation, key.Step, key.Index)
}

// BeginPreview returns what a preview of a chunk is made from: a claim without a step row,
// which commits nothing and keeps nobody from making the chunk itself. there says that it
// has a preview already. ErrDone when the chunk is committed, ErrGone when nobody wants it
// any more.
func (s *Store) BeginPreview(ctx context.Context, key workflow.Key) (c *Claim, there bool, _ error) {
	view, err := s.View(ctx, key.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !wanted(key, view.Video) {
		return nil, false, ErrGone
	}
	if err != nil {
		return nil, false, err
	}
	if step, found := view.find(key); found && step.State == StepDone {
		return nil, false, ErrDone
	}
	plan, found := view.Plans[key.Generation]
	if !found || key.Index >= len(plan.Chunks) {
		return nil, false, ErrGone
	}
	_, there = view.Previews[key.Generation][key.Index]
	c = &Claim{store: s, Video: view.Video, metaETag: view.ETag, Plan: plan, Step: Step{Key: key, Attempt: uuid.NewString()}}
	return c, there, nil
}

// AddPreview writes what can be watched of the chunk, in the place of an earlier preview.
// Nobody need own the step for that: all previews of a chunk show the same. META is not
// written, because users hold its ETag; a row that meets a purge is found by Sweep, for
// the video has a mark while it is processed. Safe to repeat.
func (c *Claim) AddPreview(ctx context.Context, preview video.Preview) error {
	doc, err := json.Marshal(preview)
	if err != nil {
		return fmt.Errorf("encode the preview of %s: %w", c.Step.Key, err)
	}
	_, err = c.store.videos.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpUpsert, Entity: tablestore.Entity{
		PartitionKey: string(c.Step.Key.ID), RowKey: previewKey(c.Step.Key), Props: map[string]any{"Doc": string(doc)},
	}}})
	if err != nil {
		return fmt.Errorf("write the preview of %s: %w", c.Step.Key, err)
	}
	return nil
}

// HandOn sends the chunk of a preview to the queue where chunks are made that somebody
// hurries. Safe to repeat: a second worker finds it claimed or done.
func (c *Claim) HandOn(ctx context.Context) error {
	key := c.Step.Key
	rec := Record{Video: c.Video, ETag: c.metaETag}
	return c.store.Resend(ctx, rec, []Intent{{Queue: key.Declared().Hurried(c.Video), Key: key}})
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
