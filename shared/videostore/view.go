package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// View is the snapshot of a video, read with one query.
type View struct {
	Record
	Plans    map[int]video.Plan            // by generation
	Steps    []Step                        // rows that exist, in key order
	Previews map[int]map[int]video.Preview // of chunks that are not committed yet, by generation and chunk
	Promised bool                          // the outbox is not empty

	// LeftOut are steps whose rows cannot be read, of a view by ReadSnapshot.
	LeftOut map[workflow.Key]bool

	cursor map[int]fanOutCursor // by generation
}

// View reads a video with one row-range query (T5). Its cost grows with the length of
// the video: one of 4 hours has about 800 rows.
func (s *Store) View(ctx context.Context, id video.ID) (View, error) {
	return s.view(ctx, id, metaKey, "", false)
}

// ReadSnapshot is View for people: rows that cannot be read are left out. Nothing may be
// decided by it, because the steps left out may be done, and may name blobs.
func (s *Store) ReadSnapshot(ctx context.Context, id video.ID) (View, error) {
	return s.view(ctx, id, metaKey, "", true)
}

// ViewWithRequests is View with the steps on request, such as clips: all, or the open ones.
// Only upkeep should call it: a popular video has many.
func (s *Store) ViewWithRequests(ctx context.Context, id video.ID, all bool) (View, error) {
	filter := "RowKey ge " + tablestore.Quote(metaKey) + " or " + isOpen
	if all {
		filter = ""
	}
	return s.view(ctx, id, "", filter, false)
}

func (s *Store) view(ctx context.Context, id video.ID, from, filter string, leaveOut bool) (View, error) {
	view := View{
		Plans: map[int]video.Plan{}, Previews: map[int]map[int]video.Preview{},
		LeftOut: map[workflow.Key]bool{}, cursor: map[int]fanOutCursor{},
	}
	found, unreadable := false, error(nil)
	rows := s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: from, RowTo: tablestore.PrefixEnd("STEP:"), Filter: filter, Class: tablestore.RowRange,
		Read: func(row tablestore.Entity) error {
			found = found || row.RowKey == metaKey
			err := view.add(row)
			if err == nil {
				return nil
			}
			if !leaveOut || row.RowKey == metaKey {
				unreadable = fmt.Errorf("decode row %s of video %s: %w: %w", row.RowKey, id, tablestore.ErrUnreadable, err)
			}
			if key, bad := workflow.ParseRowKey(id, row.RowKey); bad == nil {
				view.LeftOut[key] = true
			}
			return err
		},
	})
	for _, err := range rows {
		if err != nil {
			return View{}, err
		}
	}
	switch {
	case !found:
		return View{}, ErrNotFound
	case unreadable != nil:
		return View{}, unreadable
	}
	return view, nil
}

// add takes what a row says, or nothing of it with an error.
func (v *View) add(row tablestore.Entity) (err error) {
	kind, rest, _ := strings.Cut(row.RowKey, ":")
	generation := 0
	if kind == "NEXT" || kind == "PREVIEW" {
		text, _, _ := strings.Cut(rest, ":")
		if generation, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	switch kind {
	case metaKey:
		v.Record, err = readMeta(row)
	case "NEXT":
		v.cursor[generation], err = readFanOutCursor(row)
	case "OUT":
		v.Promised = true
	case "PLAN":
		var plan video.Plan
		if plan, err = readPlan(row); err == nil {
			v.Plans[plan.Generation] = plan
		}
	case "PREVIEW":
		var preview video.Preview
		if v.Previews[generation] == nil {
			v.Previews[generation] = map[int]video.Preview{}
		}
		if err = row.JSON("Doc", &preview); err == nil {
			v.Previews[generation][preview.Chunk] = preview
		}
	default:
		var step Step
		if step, err = readStep(row); err == nil {
			v.Steps = append(v.Steps, step)
		} else if errors.Is(err, workflow.ErrNotAKey) {
			err = nil
		}
	}
	return err
}

// StepOf returns a step of the view, or false when it has no row.
func (v View) StepOf(key workflow.Key) (Step, bool) {
	for _, s := range v.Steps {
		if s.Key == key {
			return s, true
		}
	}
	return Step{}, false
}

// Find is StepOf by generation, name and index.
func (v View) Find(generation int, name string, index int) (Step, bool) {
	return v.StepOf(workflow.Key{ID: v.Video.ID, Generation: generation, Step: name, Index: index})
}

// Whole returns the output of a generation's last step, or nil while that is not done.
func (v View) Whole(generation int) (*video.FinishOutput, error) {
	step, _ := v.Find(generation, workflow.OnlyStepIn(workflow.Last).Name, 0)
	return OutputOf[video.FinishOutput](step)
}

// OutputsOf returns what the runs of a step have committed in a generation, by index: nil for a
// run that is not done.
func OutputsOf[T any](v View, generation int, step string) (outputs []*T, err error) {
	for _, p := range v.Plans[generation].Promises {
		if p.Step == step {
			outputs = make([]*T, p.Items)
		}
	}
	for _, s := range v.Steps {
		if s.Key.Generation != generation || s.Key.Step != step || s.State != StepDone || s.Key.Index >= len(outputs) {
			continue
		}
		if outputs[s.Key.Index], err = OutputOf[T](s); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

// Presentation collects what is committed of a generation, for its playlists.
func (v View) Presentation(generation int) (playlist.Presentation, error) {
	p := playlist.Presentation{Plan: v.Plans[generation], Previews: v.Previews[generation]}
	chunks, err := OutputsOf[video.ChunkOutput](v, generation, workflow.MakerOf(workflow.Pictures))
	if err != nil {
		return p, err
	}
	sound, err := OutputsOf[video.AudioPart](v, generation, workflow.MakerOf(workflow.Sound))
	p.Chunks, p.AudioDone = chunks, !slices.Contains(sound, nil)
	for _, part := range sound {
		if part != nil && len(part.Segments) > 0 { // else the track is shorter than the container says
			p.Parts = append(p.Parts, *part)
		}
	}
	return p, err
}

// Keeps reports whether a generation is still needed: it plays, it is the newest, or an
// open step on request reads it.
func (v View) Keeps(generation int) bool {
	return generation == v.Video.Serving || generation == v.Video.Generation ||
		slices.ContainsFunc(v.OpenOptional(), func(i OutboxMessage) bool { return i.Generation == generation })
}

// Progress is how far the newest generation is.
type Progress struct {
	Percent     int `json:"percent"`
	ChunksDone  int `json:"chunksDone"`
	ChunksTotal int `json:"chunksTotal"`
}

// Progress is what META alone says. It is exact for a video that is ready or not planned yet.
// For others only ChunksTotal is exact, and only the planning counts as done.
func (r Record) Progress() (p Progress, exact bool) {
	p.ChunksTotal = r.Video.Chunks
	switch {
	case r.Video.State == video.Ready:
		p.Percent, p.ChunksDone = 100, p.ChunksTotal
		return p, true
	case p.ChunksTotal > 0:
		p.Percent = workflow.OnlyStepIn(workflow.First).Weight
		return p, false
	}
	return p, true
}

// Progress weighs steps by their declared weights and chunks by their frames. Steps that the
// plan does not promise count as done.
func (v View) Progress() Progress {
	p, exact := v.Record.Progress()
	if exact {
		return p
	}
	plan := v.Plans[v.Video.Generation]
	absent := 100 - workflow.OnlyStepIn(workflow.First).Weight - workflow.OnlyStepIn(workflow.Last).Weight
	for _, part := range append(workflow.Promises(plan, workflow.Gate), workflow.Promises(plan, workflow.Part)...) {
		var done, total int64
		for i := range part.Items {
			size := part.Step.Size(plan, i)
			total += size
			if !v.ended(messageFor(v.Video, plan, part.Step, i)) {
				continue
			}
			done += size
			if part.Step.Makes == workflow.Pictures {
				p.ChunksDone++
			}
		}
		p.Percent += int(int64(part.Step.Weight) * done / total)
		absent -= part.Step.Weight
	}
	p.Percent += absent
	return p
}

func previewKey(key workflow.Key) string {
	return fmt.Sprintf("PREVIEW:%05d:%s:%05d", key.Generation, key.Step, key.Index)
}

// BeginPreview returns what a preview of a chunk is made from. Nothing is claimed: previews
// keep no worker from making the chunk itself. there says that it has a preview already.
// ErrDone when the chunk is committed, ErrGone when the video no longer wants it.
func (s *Store) BeginPreview(ctx context.Context, key workflow.Key) (rec Record, plan video.Plan, there bool, _ error) {
	c, err := s.unclaimed(ctx, key)
	if err == nil {
		plan, err = s.Plan(ctx, key.ID, key.Generation)
	}
	if err == nil && key.Index >= len(plan.Chunks) {
		err = ErrGone
	}
	if err != nil {
		return rec, plan, false, err
	}
	_, err = s.videos.Get(ctx, string(key.ID), previewKey(key))
	return c.Record, plan, err == nil, tablestore.IgnoreNotFound(err)
}

// AddPreview writes what can be watched of a chunk, in the place of an earlier preview.
// META is not written, because users hold its ETag; a row that meets a purge is found by
// Sweep, for the video has a mark while it is processed. Safe to repeat.
func (s *Store) AddPreview(ctx context.Context, key workflow.Key, preview video.Preview) error {
	_, err := s.videos.Upsert(ctx, tablestore.Entity{
		PartitionKey: string(key.ID), RowKey: previewKey(key), Props: tablestore.Props(struct{ Doc video.Preview }{preview}),
	})
	return err
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
