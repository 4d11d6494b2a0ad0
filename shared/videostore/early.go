package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// This file is about work on a video whose upload is still going on. Its state stays
// awaiting_upload. Chunks and sound are promised when their bytes are there; what needs
// the whole file is promised by Uploaded, and nothing that fails before that is final.

// fanOutCursor is the row NEXT:<generation>: how much of a plan has been promised. It is
// written in the same transaction as the outbox rows that promise it.
type fanOutCursor struct {
	chunks int // promised
	etag   string

	// The others are of a plan that was made while its upload went on, until the upload
	// is complete.
	early   bool
	arrived int // chunks whose bytes are there
	sound   int // portions of sound that are promised
	// deferred is how many chunks may be promised when their bytes arrive: as many as are
	// missing for a full window. A chunk that ends while none can be promised adds one.
	deferred int
}

func nextKey(generation int) string { return fmt.Sprintf("NEXT:%05d", generation) }

func (r fanOutCursor) row(id video.ID, generation int) tablestore.Entity {
	props := map[string]any{"Chunks": int32(r.chunks)}
	if r.early {
		props["Arrived"], props["Sound"], props["Credit"] = int32(r.arrived), int32(r.sound), int32(r.deferred)
	}
	return tablestore.Entity{PartitionKey: string(id), RowKey: nextKey(generation), Props: props}
}

func (r fanOutCursor) replace(id video.ID, plan video.Plan) tablestore.Op {
	return tablestore.Op{Kind: tablestore.OpReplace, Entity: r.row(id, plan.Generation), IfMatch: r.etag}
}

func readFanOutCursor(row tablestore.Entity) fanOutCursor {
	r := fanOutCursor{chunks: row.Int("Chunks"), etag: row.ETag}
	if _, r.early = row.Props["Arrived"]; r.early {
		r.arrived, r.sound, r.deferred = row.Int("Arrived"), row.Int("Sound"), row.Int("Credit")
	}
	return r
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
	return readFanOutCursor(row), nil
}

// limit is how many chunks can be promised now.
func (r fanOutCursor) limit(plan video.Plan) int {
	if r.early {
		return r.arrived
	}
	return len(plan.Chunks)
}

// urgency is the video as the choice of a queue is to see it: a claim may have read META
// before the upload was complete.
func (r fanOutCursor) urgency(v video.Video) video.Video {
	if !r.early && v.State == video.AwaitingUpload {
		v.State = video.Processing
	}
	return v
}

// nothing promises no part.
var nothing = fanOutCursor{early: true}

// promises reports whether a part is promised.
func (r fanOutCursor) promises(step workflow.Step, index int) bool {
	switch {
	case step.Count == workflow.PerChunk:
		return index < r.chunks
	case r.early:
		return step.Count == workflow.PerPortion && index < r.sound
	}
	return true
}

// release notes that so many parts are there, counted from the first, and promises what
// can be made of them. Returns whether anything changed.
func (r *fanOutCursor) release(needs *video.Needs, head int) (changed bool) {
	before := *r
	// snippet: what-has-arrived
	r.arrived = max(r.arrived, leading(needs.Chunks, head))
	r.sound = max(r.sound, leading(needs.Sound, head))
	if more := min(r.arrived-r.chunks, r.deferred); more > 0 {
		r.chunks, r.deferred = r.chunks+more, r.deferred-more
	}
	return *r != before
	// end snippet
}

func leading(needs []int, head int) int {
	if i := slices.IndexFunc(needs, func(n int) bool { return n > head }); i >= 0 {
		return i
	}
	return len(needs)
}

// planned is what the commit of a plan writes beside the step row and META, and what it
// promises: of an upload that is still going on, what has arrived.
func (c *Claim) planned(commit Commit) ([]tablestore.Op, []OutboxMessage, error) {
	id, plan := c.Step.Key.ID, *commit.Plan
	r := fanOutCursor{chunks: min(window, len(plan.Chunks))}
	if plan.Needs != nil && c.Video.ProcessedEarly() {
		r = fanOutCursor{early: true, deferred: window}
		r.release(plan.Needs, commit.Head)
	}
	row, err := planRow(id, plan)
	return []tablestore.Op{
		{Kind: tablestore.OpUpsert, Entity: row},
		{Kind: tablestore.OpUpsert, Entity: r.row(id, plan.Generation)},
	}, promisedSince(c.Video, plan, nothing, r), err
}

// Arrived promises what can be made of the parts of an upload that are held, ascending.
// The code that takes parts calls it when more have come; parts that come without a call wait
// for the next one, or until the upload is complete. Safe to repeat.
func (s *Store) Arrived(ctx context.Context, id video.ID, held []sourceparts.Part) (Record, error) {
	for {
		rec, err := s.Get(ctx, id)
		if err != nil {
			return Record{}, err
		}
		layout, inParts := sourceparts.LayoutOf(rec.Video.Upload)
		switch {
		case !inParts || rec.Video.State != video.AwaitingUpload || rec.Video.Upload.DeferToComplete || len(held) >= layout.Count():
			return rec, nil // nothing can be done, or Uploaded does it all
		case rec.Video.Chunks > 0:
			err = s.promiseArrived(ctx, rec, sourceparts.Head(held))
		case rec.Video.ProcessedEarly() && len(rec.Video.Upload.PriorityParts) == 0: // the first step is promised
			return rec, nil
		case !allHeld(held, append([]int{0, layout.Count() - 1}, rec.Video.Upload.PriorityParts...)):
			return rec, nil
		default:
			rec, err = s.beginEarly(ctx, rec)
		}
		if !errors.Is(err, ErrChanged) {
			return rec, err
		}
	}
}

func allHeld(held []sourceparts.Part, numbers []int) bool {
	for _, n := range numbers {
		if !slices.ContainsFunc(held, func(p sourceparts.Part) bool { return p.Number == n }) {
			return false
		}
	}
	return true
}

// beginEarly promises the first step of a video whose upload is going on, for the first
// time or because what it missed has come.
func (s *Store) beginEarly(ctx context.Context, rec Record) (Record, error) {
	v, upload := rec.Video, *rec.Video.Upload
	if !upload.Started {
		v.Generation = max(1, v.Generation)
		v.Lane, v.Bulk = s.sender.Lane(ctx, v.Channel, v.Priority == video.High)
	}
	upload.Started, upload.PriorityParts = true, nil
	v.Upload = &upload
	return s.write(ctx, rec, v, []OutboxMessage{probeMessage(v)})
}

// promiseArrived promises chunks and sound of a plan. ErrChanged when META changed
// meanwhile.
func (s *Store) promiseArrived(ctx context.Context, rec Record, head int) error {
	id := rec.Video.ID
	plan, err := s.Plan(ctx, id, rec.Video.Generation)
	if err != nil || plan.Needs == nil {
		return err
	}
	for {
		r, err := s.promised(ctx, id, plan)
		before := r
		if err != nil || !r.early || !r.release(plan.Needs, head) {
			return err
		}
		messages := promisedSince(rec.Video, plan, before, r)
		if len(messages) > 0 {
			if err := s.MarkInflight(ctx, rec.Video); err != nil {
				return err
			}
		}
		out, err := outboxRows(ctx, id, messages)
		if err != nil {
			return err
		}
		_, err = s.videos.Submit(ctx, append(inserted(out), unchangedMeta(rec), r.replace(id, plan)))
		if err == nil {
			return s.sendRows(ctx, id, out)
		}
		if !isStale(err) {
			return fmt.Errorf("promise what has arrived of %s: %w", id, err)
		}
		now, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		if now.ETag != rec.ETag {
			return ErrChanged
		}
	}
}

// promiseRemaining sets the state of a video that was planned before its upload was complete, and
// promises all that is open: sound, what needs the whole file, and chunks up to a full
// window. Chunks in the low-priority queue are enqueued
// twice; their second message finds them done, or the first one does.
func (s *Store) promiseRemaining(ctx context.Context, v *video.Video) ([]OutboxMessage, []tablestore.Op, error) {
	view, err := s.View(ctx, v.ID)
	if err != nil {
		return nil, nil, err
	}
	plan, r := view.Plans[v.Generation], view.cursor[v.Generation]
	v.State = video.Processing
	busy := len(slices.DeleteFunc(promisedSince(*v, plan, nothing, r), func(i OutboxMessage) bool {
		return i.Declared().Count != workflow.PerChunk || view.ended(i)
	}))
	r = fanOutCursor{chunks: min(len(plan.Chunks), r.chunks+max(0, window-busy)), etag: r.etag}
	open := slices.DeleteFunc(promisedSince(*v, plan, nothing, r), func(i OutboxMessage) bool { return view.ended(i) || view.running(i) })
	return append(open, FollowMessage()), []tablestore.Op{r.replace(v.ID, plan)}, nil
}

// beganEarly reports whether work is promised while the upload goes on: it is not when
// parts are waited for that were asked for, or all of the upload is.
func (v View) beganEarly() bool {
	_, planned := v.Plans[v.Video.Generation]
	return v.Video.ProcessedEarly() && !v.Video.Upload.DeferToComplete && (planned || len(v.Video.Upload.PriorityParts) == 0)
}

// maxLooks is how often the first step of an upload that is going on may miss parts.
// Each look finds what the one before could not reach; a file that needs more cannot be
// read before it is complete.
const maxLooks = 6

// RequestParts records that the first step misses parts: they are to be sent first, and then it
// is promised again. False when the upload is complete by now, and the step can be done.
// Safe to repeat.
func (s *Store) RequestParts(ctx context.Context, id video.ID, generation int, parts []int) (waits bool, _ error) {
	return s.changeEarly(ctx, id, func(v *video.Video) {
		if v.Generation == generation {
			v.Upload.PriorityParts, v.Upload.ProbeTries = parts, v.Upload.ProbeTries+1
			v.Upload.DeferToComplete = v.Upload.ProbeTries >= maxLooks
		}
	})
}

// Postpone records that nothing more is to be done before the upload is complete. False
// when it is complete by now. Safe to repeat.
func (s *Store) Postpone(ctx context.Context, id video.ID) (waits bool, _ error) {
	// META is written also a second time: the request that completes the upload may have
	// read the step's row before.
	return s.changeEarly(ctx, id, func(v *video.Video) { v.Upload.DeferToComplete = true })
}

func (s *Store) changeEarly(ctx context.Context, id video.ID, edit func(*video.Video)) (early bool, _ error) {
	_, err := s.Change(ctx, id, "", func(v *video.Video) ([]OutboxMessage, error) {
		if early = v.ProcessedEarly(); !early {
			return nil, ErrUnchanged
		}
		upload := *v.Upload
		v.Upload = &upload
		edit(v)
		return nil, nil
	})
	return early, err
}

// StillEarly reports whether the upload of a video is still going on: a point read.
func (s *Store) StillEarly(ctx context.Context, id video.ID) (bool, error) {
	rec, err := s.Get(ctx, id)
	return rec.Video.ProcessedEarly(), err
}
