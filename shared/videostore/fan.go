package videostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// This file says which messages the parts of a video travel as: on which queue
// and lane, how many at a time, and what follows the last of them.

// leadChunks is how many chunks of a new video go before the bulk: about the
// first quarter of a minute, which is what a viewer waits for.
const leadChunks = 3

// queueFor is the lane of a queue that a video travels on.
func queueFor(v video.Video, base string) string { return workqueue.LaneName(base, v.Lane) }

// EncodeQueue chooses the queue of a chunk (Q5). The first chunk of a new video
// goes before everything else of its lane, so that every upload is soon playable;
// the next two go before the bulk; the rest follows the user's priority, and
// reprocessing never gets in anybody's way.
func EncodeQueue(v video.Video, index int) string {
	base := workflow.EncodeNormal
	switch {
	case v.Serving > 0:
		base = workflow.EncodeLow
	case index == 0:
		base = workflow.EncodeFirst
	case v.Priority == video.High || index < leadChunks:
		base = workflow.EncodeHigh
	case v.Priority == video.Low:
		base = workflow.EncodeLow
	}
	return queueFor(v, base)
}

// window is how many chunks of a video are promised to begin with. Each commit of
// a chunk promises the next one, or the next two when the queue has run empty, so
// that a lone film soon occupies every worker there is.
//
// With all chunks in the queue at once fifty films would be ten thousand
// messages: a cancelled film would leave hundreds behind, a queue of that length
// is slow to read, and films would be made one after the other instead of side by
// side, because a queue is first in, first out.
const window = 8

// FanOut returns the intents that a plan begins with: the first chunks, and every
// portion of sound, which are few. The chunks that follow are promised by the
// commits of those before them: see Commit.Advance.
func FanOut(v video.Video, plan video.Plan) []Intent {
	return parts(v, plan, min(window, len(plan.Chunks)))
}

// parts returns the intents for the first chunks of a plan and for its sound. A
// chunk and the portion of its number are neighbours: nothing can be played
// without the first of both.
func parts(v video.Video, plan video.Plan, chunks int) []Intent {
	var intents []Intent
	sound := plan.SoundItems()
	for i := range max(chunks, sound) {
		if i < chunks {
			intents = append(intents, stepIntent(EncodeQueue(v, i), StepEncode, plan, i))
		}
		if i < sound {
			intents = append(intents, stepIntent(soundQueue(v, plan, i), StepAudio, plan, i))
		}
	}
	return intents
}

// soundQueue chooses the queue of a portion of sound: the first of a new video is
// as urgent as its first chunk. A whole track in one item is not.
func soundQueue(v video.Video, plan video.Plan, index int) string {
	if index == 0 && len(plan.Sound) > 0 && v.Serving == 0 {
		return queueFor(v, workflow.AudioFirst)
	}
	return queueFor(v, workflow.Audio)
}

// stepIntent asks for one item of a plan, of workers that know the plan's format.
func stepIntent(queue, step string, plan video.Plan, index int) Intent {
	intent := Intent{Queue: queue, Step: step, Generation: plan.Generation, Index: index}
	if v := plan.MessageVersion(); v > 1 {
		intent.Version = v
	}
	return intent
}

func probeIntent(v video.Video) Intent {
	return Intent{Queue: queueFor(v, workflow.Probe), Step: StepProbe, Generation: v.Generation}
}

func finishIntent(v video.Video, plan video.Plan) Intent {
	return stepIntent(queueFor(v, workflow.Finish), StepFinish, plan, 0)
}

// The row NEXT:<generation> says how many chunks have been promised. It changes
// in the same transaction as the outbox that promises them.

func nextKey(generation int) string { return fmt.Sprintf("NEXT:%05d", generation) }

func nextRow(id video.ID, generation, chunks int) tablestore.Entity {
	return tablestore.Entity{
		PartitionKey: string(id), RowKey: nextKey(generation), Props: map[string]any{"Chunks": int32(chunks)},
	}
}

// promised reads how many chunks of a plan have been promised: a point read. A
// plan without the row is an old one, whose chunks were all promised at once.
func (s *Store) promised(ctx context.Context, id video.ID, plan video.Plan) (chunks int, etag string, _ error) {
	row, err := s.videos.Get(ctx, string(id), nextKey(plan.Generation))
	if errors.Is(err, tablestore.ErrNotFound) {
		return len(plan.Chunks), "", nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("read how far %s is promised: %w", id, err)
	}
	return row.Int("Chunks"), row.ETag, nil
}

// advance returns what a chunk's commit writes to promise the chunks that come
// next: the row NEXT under its ETag, and the intents. Both are empty when every
// chunk is promised.
func (c *Claim) advance(ctx context.Context) ([]tablestore.Op, []Intent, error) {
	id, plan := c.Step.Key.ID, c.Plan
	from, etag, err := c.store.promised(ctx, id, plan)
	if err != nil || from >= len(plan.Chunks) {
		return nil, nil, err
	}
	to := from + 1
	// Whether somebody waits there is only a hint: on an error the window stays.
	if waiting, err := c.store.sender.Waiting(ctx, EncodeQueue(c.Video, from)); err == nil && !waiting {
		to++
	}
	to = min(to, len(plan.Chunks))
	var intents []Intent
	for i := from; i < to; i++ {
		intents = append(intents, stepIntent(EncodeQueue(c.Video, i), StepEncode, plan, i))
	}
	row := tablestore.Op{Kind: tablestore.OpReplace, Entity: nextRow(id, plan.Generation, to), IfMatch: etag}
	return []tablestore.Op{row}, intents, nil
}

// Missing returns the intents for every step of the newest generation that was
// promised and is not done: what a retry and the reconciler send again.
func (v View) Missing() []Intent {
	generation := v.Video.Generation
	open := func(i Intent) bool {
		s, found := v.Find(generation, i.Step, i.Index)
		return !found || s.State != StepDone
	}
	if probe := probeIntent(v.Video); open(probe) {
		return []Intent{probe}
	}
	plan := v.Plans[generation]
	chunks, known := v.Chunks[generation]
	if !known {
		chunks = len(plan.Chunks)
	}
	var missing []Intent
	for _, i := range parts(v.Video, plan, chunks) {
		if open(i) {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	if finish := finishIntent(v.Video, plan); open(finish) {
		return []Intent{finish}
	}
	return nil
}

// FanIn promises the finish step when every chunk and all sound are committed.
// Every chunk and every portion of sound call it after their own commit, so whichever commit
// is last sees all the others; of several that see them, inserting the finish
// row lets one win. Returns whether this call won. Safe to repeat.
func (s *Store) FanIn(ctx context.Context, id video.ID, plan video.Plan) (bool, error) {
	// While chunks are still to be promised, nobody needs to count.
	if chunks, _, err := s.promised(ctx, id, plan); err != nil || chunks < len(plan.Chunks) {
		return false, err
	}
	done, err := s.allDone(ctx, id, plan)
	if err != nil || !done {
		return false, err
	}
	for {
		rec, err := s.Get(ctx, id)
		if errors.Is(err, ErrNotFound) || err == nil && (!rec.Video.State.Active() || rec.Video.Generation != plan.Generation) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		finish := Step{Key: StepKey{ID: id, Generation: plan.Generation, Step: StepFinish}, State: StepQueued, QueuedAt: now()}
		out, err := outboxRows(id, []Intent{finishIntent(rec.Video, plan)})
		if err != nil {
			return false, err
		}
		_, err = s.videos.Submit(ctx, []tablestore.Op{
			unchangedMeta(rec),
			{Kind: tablestore.OpInsert, Entity: finish.row()},
			{Kind: tablestore.OpInsert, Entity: out[0]},
		})
		switch {
		case err == nil:
			return true, s.sendRows(ctx, id, out)
		case errors.Is(err, tablestore.ErrExists):
			return false, nil // another commit was first, or this is a repetition
		case !isStale(err):
			return false, fmt.Errorf("promise finish of %s: %w", id, err)
		}
	}
}

// allDone reports whether every chunk and all sound of a plan are committed: one
// row range query, keys only.
func (s *Store) allDone(ctx context.Context, id video.ID, plan video.Plan) (bool, error) {
	done := 0
	steps := fmt.Sprintf("STEP:%05d:", plan.Generation)
	rows := s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: steps, RowTo: tablestore.PrefixEnd(steps),
		Filter: "State eq " + tablestore.Quote(string(StepDone)),
		Select: []string{"PartitionKey", "RowKey"}, Class: tablestore.RowRange,
	})
	for row, err := range rows {
		if err != nil {
			return false, fmt.Errorf("count finished steps of %s: %w", id, err)
		}
		key, err := scanStepKey(id, row.RowKey)
		if err != nil {
			return false, err
		}
		if key.Step == StepEncode || key.Step == StepAudio {
			done++
		}
	}
	return done >= len(plan.Chunks)+plan.SoundItems(), nil
}

// unchangedMeta is an operation that changes nothing but is refused when META
// was changed or is gone: no row may be added to a video that is being erased.
func unchangedMeta(rec Record) tablestore.Op {
	meta := tablestore.Entity{PartitionKey: string(rec.Video.ID), RowKey: metaKey}
	return tablestore.Op{Kind: tablestore.OpMerge, Entity: meta, IfMatch: rec.ETag}
}
