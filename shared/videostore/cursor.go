package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// fanOutCursor is the row NEXT:<generation>: how much of a plan has been promised. It is
// written in the same transaction as the outbox rows that promise it.
type fanOutCursor struct {
	Chunks int // promised
	// Partial: the plan was made while its upload went on, which is not complete yet. Only
	// PromiseChunks promises more of it: chunks, and sound that ends before they do.
	Partial bool

	etag string
}

// noPromises is the cursor of a plan before the first promise.
var noPromises = fanOutCursor{Partial: true}

func nextKey(generation int) string { return fmt.Sprintf("NEXT:%05d", generation) }

func (r fanOutCursor) row(id video.ID, generation int) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(id), RowKey: nextKey(generation), Props: tablestore.Props(r)}
}

func (r fanOutCursor) replace(id video.ID, plan video.Plan) tablestore.Op {
	return tablestore.Op{Kind: tablestore.OpReplace, Entity: r.row(id, plan.Generation), IfMatch: r.etag}
}

func readFanOutCursor(row tablestore.Entity) (fanOutCursor, error) {
	r := fanOutCursor{etag: row.ETag}
	err := row.Struct(&r)
	return r, err
}

// promised reads how much of a plan has been promised: a point read. ErrGone when the
// generation was removed.
func (s *Store) promised(ctx context.Context, id video.ID, plan video.Plan) (fanOutCursor, error) {
	row, err := s.videos.Get(ctx, string(id), nextKey(plan.Generation))
	if errors.Is(err, tablestore.ErrNotFound) {
		return fanOutCursor{}, ErrGone
	}
	if err != nil {
		return fanOutCursor{}, fmt.Errorf("read how far %s is promised: %w", id, err)
	}
	return tablestore.Decode(ctx, s.videos, row, readFanOutCursor)
}

// promises reports whether a part is promised.
func (r fanOutCursor) promises(plan video.Plan, step workflow.Step, index int) bool {
	switch {
	case step.Count == workflow.PerChunk:
		return index < r.Chunks
	case r.Partial:
		return step.Count == workflow.PerPortion && video.SoundStart(plan.Sound[index].End) <= plan.Start(r.Chunks)
	}
	return true
}

// PromiseChunks promises the chunks up to one, without it, of a video that was planned while
// its upload went on: as many as the window takes, which counts all that was promised and
// has not ended. ErrChanged when META changed meanwhile. Safe to repeat.
func (s *Store) PromiseChunks(ctx context.Context, rec Record, plan video.Plan, until int) error {
	before, err := s.promised(ctx, rec.Video.ID, plan)
	if err != nil || !before.Partial || until <= before.Chunks {
		return err
	}
	view, err := s.View(ctx, rec.Video.ID)
	if err != nil {
		return err
	}
	open := len(slices.DeleteFunc(promisedSince(rec.Video, plan, noPromises, before), view.ended))
	now := before
	if now.Chunks = min(until, before.Chunks+window-open); now.Chunks <= before.Chunks {
		return nil
	}
	messages := promisedSince(rec.Video, plan, before, now)
	_, err = s.write(ctx, rec, rec.Video, messages, now.replace(rec.Video.ID, plan))
	return err
}

// promiseRest sets the state of a video that was planned before its upload was complete, and
// promises what is open: all that was promised, a window of chunks more, and the parts that
// need the whole file. A step that was promised before is enqueued twice; one of the two
// messages finds it running or done.
func (s *Store) promiseRest(ctx context.Context, v *video.Video) ([]OutboxMessage, []tablestore.Op, error) {
	view, err := s.View(ctx, v.ID)
	if err != nil {
		return nil, nil, err
	}
	v.State = video.Processing
	plan, r := view.Plans[v.Generation], view.cursor[v.Generation]
	r.Chunks, r.Partial = min(len(plan.Chunks), r.Chunks+window), false
	view.Video, view.cursor[v.Generation] = *v, r
	return append(view.Missing(), FollowMessage()), []tablestore.Op{r.replace(v.ID, plan)}, nil
}
