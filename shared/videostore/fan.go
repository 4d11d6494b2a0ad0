package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// This file turns the declared workflow into messages: how many chunks are promised at
// a time, and what the last part's end promises.

// window is how many chunks of a plan are promised with it, beside all its other parts,
// which are few. Each chunk's commit promises the next one, or two when the queue is
// empty: a film that is alone then soon uses all workers.
//
// If all chunks were in the queue at once, fifty films would be ten thousand messages.
// A cancelled film would leave hundreds behind, and reading the queue would be slow.
// And films would be made one after another, because a queue is first in, first out.
const window = 8

// promisedSince returns the messages for the parts that a plan's reach promises and did not
// promise before. They are ordered by index, because a video plays only when it has the
// first chunk and the first portion of sound.
func promisedSince(v video.Video, plan video.Plan, before, now fanOutCursor) (messages []OutboxMessage) {
	promised := workflow.Promises(plan, workflow.Part)
	for i, more := 0, true; more; i++ {
		more = false
		for _, p := range promised {
			if i < p.Items && now.promises(plan, p.Step, i) && !before.promises(plan, p.Step, i) {
				messages = append(messages, messageFor(v, plan, p.Step, i))
			}
			more = more || i+1 < p.Items
		}
	}
	return messages
}

// messageFor asks for one step of a plan.
func messageFor(v video.Video, plan video.Plan, step workflow.Step, index int) OutboxMessage {
	key := workflow.Key{ID: v.ID, Generation: plan.Generation, Step: step.Name, Index: index}
	return OutboxMessage{Queue: step.Queue(v, plan, index), Key: key, optional: step.IsOptional()}
}

// probeMessage asks for the step that plans a generation.
func probeMessage(v video.Video) OutboxMessage {
	return messageFor(v, video.Plan{Generation: v.Generation}, workflow.OnlyStepIn(workflow.First), 0)
}

// planned is what the commit of a plan writes beside the step row and META, and what it
// promises: while the upload goes on, nothing yet.
func (c *Claim) planned(plan video.Plan) ([]tablestore.Op, []OutboxMessage) {
	id, r := c.Step.Key.ID, fanOutCursor{Chunks: min(window, len(plan.Chunks))}
	if c.Video.State == video.AwaitingUpload {
		r = noPromises
	}
	return []tablestore.Op{
		{Kind: tablestore.OpUpsert, Entity: planRow(id, plan)},
		{Kind: tablestore.OpUpsert, Entity: r.row(id, plan.Generation)},
	}, promisedSince(c.Video, plan, noPromises, r)
}

// fanOut returns what the end of a step promises, and what it writes to do so: the parts
// of a plan, the next chunks, the steps after ready, and the step on change.
func (c *Claim) fanOut(ctx context.Context, ended Step, commit Commit) (ops []tablestore.Op, next []OutboxMessage, err error) {
	switch step := ended.Key.Declared(); {
	case ended.State != StepDone:
	case commit.Plan != nil:
		ops, next = c.planned(*commit.Plan)
	case step.Makes == workflow.Pictures:
		ops, next, err = c.advance(ctx)
	case step.Stage == workflow.Last:
		for _, p := range workflow.Promises(c.Plan, workflow.AfterReady) {
			next = append(next, messageFor(c.Video, c.Plan, p.Step, 0))
		}
	}
	if commit.changesVideo() {
		next = append(next, FollowMessage())
	}
	return ops, next, err
}

// Follow does what comes after the end of a part, when its messages are sent: the video
// may be playable now, or complete. Safe to repeat.
func (c *Claim) Follow(ctx context.Context) error {
	return c.store.afterPart(ctx, c.Step.Key, c.Video.Playable)
}

// afterPart is Claim.Follow. playable says that the video is known to be.
func (s *Store) afterPart(ctx context.Context, key workflow.Key, playable bool) error {
	step := key.Declared()
	if step.Stage != workflow.Part && step.Stage != workflow.AfterReady {
		return nil
	}
	plan, err := s.Plan(ctx, key.ID, key.Generation)
	if err != nil || workflow.StageIn(plan, step) != workflow.Part {
		return err
	}
	if !playable && step.Makes != workflow.Nothing {
		if err := s.MarkPlayable(ctx, key.ID); err != nil {
			return err
		}
	}
	_, err = s.FanIn(ctx, key.ID, plan)
	return err
}

// RequestMissing reports whether a message asks, or asked, for a run that has no row yet, and
// since when; zero when only the message knows that.
func (v View) RequestMissing(key workflow.Key) (asked bool, since time.Time) {
	plan, step, after := v.Plans[key.Generation], key.Declared(), workflow.First
	switch workflow.StageIn(plan, step) {
	case workflow.First:
		if v.Video.Generation == 1 {
			since = v.Video.UploadedAt
		}
		return v.Video.State.Active() && !v.Video.UploadedAt.IsZero(), since
	case workflow.AfterReady:
		after = workflow.Last
	case workflow.Part:
		if !v.cursor[key.Generation].promises(plan, step, key.Index) {
			return false, since
		}
		if step.Count == workflow.PerChunk && key.Index >= window {
			return true, since
		}
	}
	before, _ := v.Find(key.Generation, workflow.OnlyStepIn(after).Name, 0)
	if before.State != StepDone {
		return after == workflow.First, since
	}
	return true, before.FinishedAt
}

// advance returns what a chunk's commit writes to promise the next chunks: the row NEXT
// under its ETag, and the messages. Both are empty when every chunk is promised.
func (c *Claim) advance(ctx context.Context) ([]tablestore.Op, []OutboxMessage, error) {
	id, plan := c.Step.Key.ID, c.Plan
	before, err := c.store.promised(ctx, id, plan)
	if err != nil || before.Partial || before.Chunks >= len(plan.Chunks) {
		return nil, nil, err
	}
	v, r := c.Video, before
	v.State = video.Processing // the claim may have read META before the upload was complete
	r.Chunks++
	next := promisedSince(v, plan, before, r)
	// An error here does not fail the commit: the window then stays as it is.
	if waiting, err := c.store.sender.Waiting(ctx, next[0].Queue); err == nil && !waiting && r.Chunks < len(plan.Chunks) {
		r.Chunks++
		next = promisedSince(v, plan, before, r)
	}
	return []tablestore.Op{r.replace(id, plan)}, next, nil
}

// Missing returns the messages for all steps of the newest generation that were promised
// and have not ended. A retry and the reconciler send them again. None while the upload goes
// on: Uploaded promises all that is open then.
func (v View) Missing() []OutboxMessage {
	if v.Video.State == video.AwaitingUpload {
		return nil
	}
	if first := probeMessage(v.Video); v.open(first) {
		return []OutboxMessage{first}
	}
	plan := v.Plans[v.Video.Generation]
	if missing := slices.DeleteFunc(promisedSince(v.Video, plan, noPromises, v.cursor[plan.Generation]), v.ended); len(missing) > 0 {
		return missing
	}
	if last := messageFor(v.Video, plan, workflow.OnlyStepIn(workflow.Last), 0); v.open(last) {
		return []OutboxMessage{last}
	}
	return nil
}

// Wanted returns the messages, in their most urgent queues, for the parts that
// a viewer needs who goes to a second of a video that is being made: the chunk that shows it, the
// next one, and the sound of both. What is committed or being worked on is left out, and
// so are parts that fail alone. A part whose turn comes later is promised twice then; its
// second message finds it done.
func (v View) Wanted(second float64) (wanted []OutboxMessage) {
	plan, found := v.Plans[v.Video.Generation]
	chunk, planned := plan.ChunkAt(second)
	if !found || !planned || !v.Video.State.Active() {
		return nil
	}
	sound := plan.SoundFrom(plan.Start(chunk))
	for _, p := range workflow.Promises(plan, workflow.Part) {
		for i := range p.Items {
			needed := false
			switch p.Step.Makes {
			case workflow.Pictures:
				_, shown := v.Previews[plan.Generation][i] // and the chunk was sent on behind it
				needed = (i == chunk || i == chunk+1) && !shown
			case workflow.Sound:
				needed = plan.Sound[i].First >= sound && video.SoundStart(plan.Sound[i].First) < plan.Start(chunk+2)
			}
			message := messageFor(v.Video, plan, p.Step, i)
			step, _ := v.StepOf(message.Key)
			if needed && step.State != StepRunning && v.open(message) {
				message.Queue = p.Step.QueueAt(0, v.Video)
				wanted = append(wanted, message)
			}
		}
	}
	return wanted
}

// OpenOptional returns the messages for open steps whose failure is not the video's: those
// of the generation that plays, and clips if the view is one with requests.
func (v View) OpenOptional() (open []OutboxMessage) {
	open = slices.DeleteFunc(v.optional(v.Video.Serving), v.ended)
	for _, s := range v.Steps {
		if s.Key.Declared().Stage == workflow.OnRequest && !s.Ended() {
			open = append(open, requestMessage(v.Video, s.Key))
		}
	}
	return open
}

// optional returns the messages for all steps of a generation that fail alone: parts, and
// steps after ready.
func (v View) optional(generation int) (all []OutboxMessage) {
	plan, found := v.Plans[generation]
	if !found {
		return nil
	}
	for _, stage := range []workflow.Stage{workflow.Part, workflow.AfterReady} {
		for _, p := range workflow.Promises(plan, stage) {
			for i := range p.Items {
				if p.Step.IsOptional() {
					all = append(all, messageFor(v.Video, plan, p.Step, i))
				}
			}
		}
	}
	return all
}

// open reports whether the step that a message asks for has not ended.
func (v View) open(i OutboxMessage) bool { return !v.ended(i) }

// ended is Step.Ended for the step that a message asks for; false when it has no row.
func (v View) ended(i OutboxMessage) bool {
	s, found := v.StepOf(i.Key)
	return found && (s.State == StepDone || s.State == StepFailed && i.optional)
}

// FanIn promises the last step when every part has ended. It is called after the end of
// each part, so the last caller sees that all have ended. Two callers may see that at
// once; the insert of the last step's row picks one. Returns whether this call did. Safe to repeat.
func (s *Store) FanIn(ctx context.Context, id video.ID, plan video.Plan) (bool, error) {
	// While chunks are not promised yet, parts are missing: skip the query.
	r, err := s.promised(ctx, id, plan)
	if err != nil || r.Chunks < len(plan.Chunks) {
		return false, err
	}
	if ended, err := s.allEnded(ctx, id, plan); err != nil || !ended {
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
		message := messageFor(rec.Video, plan, workflow.OnlyStepIn(workflow.Last), 0)
		last := Step{Key: message.Key, State: StepQueued, QueuedAt: now()}
		out := outboxRows(ctx, id, []OutboxMessage{message})
		// snippet: one-insert
		_, err = s.videos.Submit(ctx, []tablestore.Op{
			unchangedMeta(rec),
			{Kind: tablestore.OpInsert, Entity: last.row()},
			{Kind: tablestore.OpInsert, Entity: out[0]},
		})
		switch {
		case err == nil:
			return true, s.sendRows(ctx, id, out)
		case errors.Is(err, tablestore.ErrExists):
			return false, nil // another commit was first, or this is a repetition
		// end snippet
		case !tablestore.Overtaken(err):
			return false, fmt.Errorf("promise %s: %w", last.Key, err)
		}
	}
}

// allEnded reports whether every part of a plan has ended: one row-range query.
func (s *Store) allEnded(ctx context.Context, id video.ID, plan video.Plan) (bool, error) {
	open, alone := map[string]int{}, map[string]bool{}
	for _, p := range workflow.Promises(plan, workflow.Part) {
		open[p.Step.Name], alone[p.Step.Name] = p.Items, p.Step.IsOptional()
	}
	steps := fmt.Sprintf("STEP:%05d:", plan.Generation)
	rows := s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: steps, RowTo: tablestore.PrefixEnd(steps),
		Filter: "State eq " + tablestore.Quote(string(StepDone)) + " or State eq " + tablestore.Quote(string(StepFailed)),
		Select: []string{"PartitionKey", "RowKey", "State"}, Class: tablestore.RowRange,
	})
	for row, err := range rows {
		if err != nil {
			return false, fmt.Errorf("count ended steps of %s: %w", id, err)
		}
		key, err := workflow.ParseRowKey(id, row.RowKey)
		if err != nil {
			return false, err
		}
		if row.String("State") == string(StepDone) || alone[key.Step] {
			open[key.Step]--
		}
	}
	for _, n := range open {
		if n > 0 {
			return false, nil
		}
	}
	return true, nil
}

// unchangedMeta is an operation that changes nothing and is refused when META was
// changed or is gone, so that no row is added to a video that is being purged.
func unchangedMeta(rec Record) tablestore.Op {
	meta := tablestore.Entity{PartitionKey: string(rec.Video.ID), RowKey: metaKey}
	return tablestore.Op{Kind: tablestore.OpMerge, Entity: meta, IfMatch: rec.ETag}
}
