package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// window is how many chunks of a plan are promised with it, beside all its other parts,
// which are few. Each chunk's commit promises the next one, or two when the queue is
// empty: a film that is alone then soon uses all workers. If all chunks were in the queue at
// once, films would be made one after another, and a cancelled one would leave hundreds behind.
const window = 8

// promisedIn returns a message for every run of a stage that a plan promises, by index: a video
// plays only when it has the first chunk and the first portion of sound.
func promisedIn(v video.Video, plan video.Plan, stage workflow.Stage) (messages []OutboxMessage) {
	for _, p := range workflow.Promises(plan, stage) {
		for i := range p.Items {
			messages = append(messages, messageFor(v, plan, p.Step, i))
		}
	}
	slices.SortStableFunc(messages, func(a, b OutboxMessage) int { return a.Index - b.Index })
	return messages
}

// promisedSince returns the messages for the gates and parts that were promised since another
// cursor.
func promisedSince(v video.Video, plan video.Plan, before, now fanOutCursor) []OutboxMessage {
	all := append(promisedIn(v, plan, workflow.Gate), promisedIn(v, plan, workflow.Part)...)
	return slices.DeleteFunc(all, func(m OutboxMessage) bool {
		return before.promises(plan, m.step, m.Index) || !now.promises(plan, m.step, m.Index)
	})
}

// messageFor asks for one step of a plan.
func messageFor(v video.Video, plan video.Plan, step workflow.Step, index int) OutboxMessage {
	key := workflow.Key{ID: v.ID, Generation: plan.Generation, Step: step.Name, Index: index}
	return OutboxMessage{Queue: step.Queue(v, plan, index), Key: key, step: step}
}

// probeMessage asks for the step that plans a generation.
func probeMessage(v video.Video) OutboxMessage {
	return messageFor(v, video.Plan{Generation: v.Generation}, workflow.OnlyStepIn(workflow.First), 0)
}

// RequestMissing reports whether a run without a row was asked for, and since when; zero when
// only the message knows that.
func (v View) RequestMissing(key workflow.Key) (asked bool, since time.Time) {
	plan, step, after := v.Plans[key.Generation], key.Declared(), workflow.First
	step.Stage = workflow.StageIn(plan, step)
	switch step.Stage {
	case workflow.First:
		if v.Video.Generation == 1 {
			since = v.Video.UploadedAt
		}
		return v.Video.State.Active() && !v.Video.UploadedAt.IsZero(), since
	case workflow.AfterReady:
		after = workflow.Last
	case workflow.Gate, workflow.Part:
		if v.Video.State == video.AwaitingUpload && step.Stage == workflow.Gate && !step.Early {
			return false, since
		}
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
	since = before.FinishedAt
	for _, gate := range promisedIn(v.Video, plan, workflow.Gate) {
		if passed, _ := v.StepOf(gate.Key); step.Stage == workflow.Part && passed.FinishedAt.After(since) {
			since = passed.FinishedAt
		}
	}
	return true, since
}

// Missing returns the messages for all steps of the newest generation that were promised
// and have not ended. A retry and the reconciler send them again. None while the upload goes
// on: Uploaded promises all that is open then.
func (v View) Missing() []OutboxMessage {
	if v.Video.State == video.AwaitingUpload {
		return nil
	}
	if first := probeMessage(v.Video); !v.ended(first) {
		return []OutboxMessage{first}
	}
	plan := v.Plans[v.Video.Generation]
	r := v.cursor[plan.Generation]
	if v.passed() { // what follows a gate was not done: its message, delivered again, does it
		return promisedIn(v.Video, plan, workflow.Gate)[:1]
	}
	missing := slices.DeleteFunc(promisedSince(v.Video, plan, noPromises, r), v.ended)
	last := messageFor(v.Video, plan, workflow.OnlyStepIn(workflow.Last), 0)
	if len(missing) == 0 && r.Chunks >= len(plan.Chunks) && !v.ended(last) {
		missing = append(missing, last)
	}
	return missing
}

// Wanted returns the messages, in their most urgent queues, for the parts that a viewer needs
// who goes to a second of a video that is being made: the chunk that shows it, the next one,
// and the sound of both, unless they are committed or being worked on. A part whose turn comes
// later is promised twice then; its second message finds it done.
func (v View) Wanted(second float64) []OutboxMessage {
	plan, found := v.Plans[v.Video.Generation]
	chunk, planned := plan.ChunkAt(second)
	if !found || !planned || !v.Video.State.Active() || v.cursor[plan.Generation].Held {
		return nil
	}
	sound := plan.SoundFrom(plan.Start(chunk))
	wanted := slices.DeleteFunc(promisedIn(v.Video, plan, workflow.Part), func(m OutboxMessage) bool {
		needed := false
		switch i := m.Index; m.step.Makes {
		case workflow.Pictures:
			_, shown := v.Previews[plan.Generation][i] // and the chunk was sent on behind it
			needed = (i == chunk || i == chunk+1) && !shown
		case workflow.Sound:
			needed = plan.Sound[i].First >= sound && video.SoundStart(plan.Sound[i].First) < plan.Start(chunk+2)
		}
		if !needed {
			return true
		}
		step, _ := v.StepOf(m.Key)
		return step.State == StepRunning || v.ended(m)
	})
	for i := range wanted {
		wanted[i].Queue = wanted[i].step.QueueAt(0, v.Video)
	}
	return wanted
}

// OpenOptional returns the messages for open steps that fail alone: those of the generation
// that plays, and clips if the view is one with requests.
func (v View) OpenOptional() (open []OutboxMessage) {
	open = slices.DeleteFunc(v.optional(v.Video.Serving), v.ended)
	for _, s := range v.Steps {
		if s.Key.Declared().Stage == workflow.OnRequest && !s.Ended() {
			open = append(open, requestMessage(v.Video, s.Key))
		}
	}
	return open
}

// optional returns the messages for all steps of a generation's plan that fail alone.
func (v View) optional(generation int) []OutboxMessage {
	plan := v.Plans[generation]
	all := append(promisedIn(v.Video, plan, workflow.Part), promisedIn(v.Video, plan, workflow.AfterReady)...)
	return slices.DeleteFunc(all, func(m OutboxMessage) bool { return !m.step.IsOptional() })
}

// ended is Step.Ended for the step that a message asks for; false when it has no row.
func (v View) ended(m OutboxMessage) bool {
	s, found := v.StepOf(m.Key)
	return found && (s.State == StepDone || s.State == StepFailed && m.step.IsOptional())
}

// MarkPlayable sets Playable when the first segments can be watched, and returns the video as
// it is then. It never clears it.
func (s *Store) MarkPlayable(ctx context.Context, view View) (Record, error) {
	p, err := view.Presentation(view.Video.Generation)
	if err != nil || view.Video.Playable || !p.Ready() {
		return view.Record, err
	}
	return s.Change(ctx, view.Video.ID, "", func(v *video.Video) ([]OutboxMessage, error) {
		if v.Playable || !v.Working() {
			return nil, ErrUnchanged
		}
		v.Playable = true
		return []OutboxMessage{FollowMessage()}, nil
	})
}

// passed reports whether all gates are done and the parts, which waited for them, are not
// promised yet.
func (v View) passed() bool {
	gates := promisedIn(v.Video, v.Plans[v.Video.Generation], workflow.Gate)
	open := slices.DeleteFunc(gates, v.ended)
	return v.cursor[v.Video.Generation].Held && v.Video.Working() && len(open) == 0
}

// open promises the parts that waited for the gates. Of two callers, the ETag of the row NEXT
// picks one.
func (s *Store) open(ctx context.Context, view View) error {
	id, plan := view.Video.ID, view.Plans[view.Video.Generation]
	r := firstPromises(view.Video, plan)
	r.etag = view.cursor[plan.Generation].etag
	out := outboxRows(ctx, id, promisedSince(view.Video, plan, noPromises, r))
	ops := []tablestore.Op{unchangedMeta(view.Record), r.replace(id, plan)}
	_, err := s.videos.Submit(ctx, slices.Concat(ops, inserted(out)))
	if err != nil {
		return err
	}
	return s.sendRows(ctx, id, out)
}

// FanIn promises what is due when every gate has ended, or the last step when every part has,
// and returns whether this call promised the last step. It is called after the end of each.
// Two callers may see at once that all have ended; the insert of the last step's row picks
// one. Safe to repeat.
func (s *Store) FanIn(ctx context.Context, view View) (bool, error) {
	id := view.Video.ID
	if view.passed() {
		if err := s.open(ctx, view); !tablestore.Overtaken(err) {
			return false, err
		}
		return s.fanInAgain(ctx, id)
	}
	missing := view.Missing()
	if !view.Video.State.Active() || len(missing) != 1 || missing[0].step.Stage != workflow.Last {
		return false, nil
	}
	last := Step{Key: missing[0].Key, State: StepQueued, QueuedAt: now()}
	out := outboxRows(ctx, id, missing)
	// snippet: one-insert
	_, err := s.videos.Submit(ctx, []tablestore.Op{
		unchangedMeta(view.Record),
		tablestore.Over(last.row(), ""),
		tablestore.Over(out[0], ""),
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
	return s.fanInAgain(ctx, id)
}

// fanInAgain is FanIn with a view of now, because another writer was faster.
func (s *Store) fanInAgain(ctx context.Context, id video.ID) (bool, error) {
	view, err := s.View(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return s.FanIn(ctx, view)
}

// unchangedMeta is an operation that changes nothing and is refused when META was
// changed or is gone, so that no row is added to a video that is being purged.
func unchangedMeta(rec Record) tablestore.Op {
	meta := tablestore.Entity{PartitionKey: string(rec.Video.ID), RowKey: metaKey}
	return tablestore.Op{Kind: tablestore.OpMerge, Entity: meta, IfMatch: rec.ETag}
}

// fanOutCursor is the row NEXT:<generation>: how much of a plan has been promised.
type fanOutCursor struct {
	Chunks int // promised
	// Partial: the plan was made while its upload went on, which is not complete yet. Only
	// PromiseChunks promises more of it: chunks, and sound that ends before they do.
	Partial bool
	// Held: the gates have not passed. Nothing but them is promised.
	Held bool

	etag string
}

var (
	noPromises   = fanOutCursor{Partial: true}             // before the first promise
	heldPromises = fanOutCursor{Partial: true, Held: true} // of the gates alone
)

// firstPromises is the cursor of a plan whose parts are due: a window of chunks, but none while
// the upload goes on.
func firstPromises(v video.Video, plan video.Plan) fanOutCursor {
	if v.State == video.AwaitingUpload {
		return noPromises
	}
	return fanOutCursor{Chunks: min(window, len(plan.Chunks))}
}

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
	return read(ctx, s, id, nextKey(plan.Generation), ErrGone, readFanOutCursor)
}

func (r fanOutCursor) promises(plan video.Plan, step workflow.Step, index int) bool {
	switch {
	case step.Stage == workflow.Gate:
		return r.Held
	case r.Held:
		return false
	case step.Count == workflow.PerChunk:
		return index < r.Chunks
	case r.Partial:
		return step.Count == workflow.PerPortion && video.SoundStart(plan.Sound[index].End) <= plan.Start(r.Chunks)
	}
	return true
}

// PromiseChunks promises the chunks before until of a video that was planned while its upload
// went on: as many as the window takes, which counts all that was promised and has not ended.
// ErrChanged when META changed meanwhile. Safe to repeat.
func (s *Store) PromiseChunks(ctx context.Context, rec Record, plan video.Plan, until int) error {
	before, err := s.promised(ctx, rec.Video.ID, plan)
	if err != nil || before.Held || !before.Partial || until <= before.Chunks {
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
	if !r.Held {
		r.Chunks, r.Partial = min(len(plan.Chunks), r.Chunks+window), false
	}
	view.Video, view.cursor[v.Generation] = *v, r
	return append(view.Missing(), FollowMessage()), []tablestore.Op{r.replace(v.ID, plan)}, nil
}
