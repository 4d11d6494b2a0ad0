package videostore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// View is everything known about one video, read at one moment.
type View struct {
	Record
	Plans    map[int]video.Plan        // by generation
	Chunks   map[int]int               // promised so far, by generation; all when there is none
	Steps    []Step                    // rows that exist, in key order
	Parts    map[int][]video.AudioPart // committed audio by generation, in order; with gaps while it is made
	Promised bool                      // the outbox is not empty
}

// View reads a whole video with one row-range query (T5). Its cost follows the
// length of the video: a 4-hour one has about 800 rows.
func (s *Store) View(ctx context.Context, id video.ID) (View, error) {
	return s.view(ctx, id, metaKey, "")
}

// ViewWithClips is View with the clips among the steps: those in the given
// states, or all. It is for upkeep; a popular video has many.
func (s *Store) ViewWithClips(ctx context.Context, id video.ID, states ...StepState) (View, error) {
	filter := ""
	if len(states) > 0 {
		filter = "RowKey ge " + tablestore.Quote(metaKey)
		for _, state := range states {
			filter += " or State eq " + tablestore.Quote(string(state))
		}
	}
	return s.view(ctx, id, clipPrefix, filter)
}

func (s *Store) view(ctx context.Context, id video.ID, from, filter string) (View, error) {
	view := View{Plans: map[int]video.Plan{}, Chunks: map[int]int{}, Parts: map[int][]video.AudioPart{}}
	found := false
	rows := s.videos.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: from, RowTo: tablestore.PrefixEnd("STEP:"), Filter: filter, Class: tablestore.RowRange,
	})
	for row, err := range rows {
		if err != nil {
			return View{}, fmt.Errorf("read all of video %s: %w", id, err)
		}
		if row.RowKey == metaKey {
			found = true
		}
		if err := view.add(row); err != nil {
			return View{}, err
		}
	}
	if !found {
		return View{}, ErrNotFound
	}
	return view, nil
}

func (v *View) add(row tablestore.Entity) (err error) {
	kind, _, _ := strings.Cut(row.RowKey, ":")
	switch kind {
	case metaKey:
		v.Record, err = readMeta(row)
	case "NEXT":
		var generation int
		_, err = fmt.Sscanf(row.RowKey, "NEXT:%d", &generation)
		v.Chunks[generation] = row.Int("Chunks")
	case "OUT":
		v.Promised = true
	case "PLAN":
		var plan video.Plan
		err = row.JSON("Doc", &plan)
		v.Plans[plan.Generation] = plan
	case "PART":
		var generation int
		var part video.AudioPart
		if _, err = fmt.Sscanf(row.RowKey, "PART:%d:", &generation); err == nil {
			err = row.JSON("Doc", &part)
		}
		v.Parts[generation] = append(v.Parts[generation], part)
	case "STEP", "CLIP":
		var step Step
		step, err = readStep(row)
		v.Steps = append(v.Steps, step)
	}
	if err != nil {
		return fmt.Errorf("decode row %s of video %s: %w: %w", row.RowKey, row.PartitionKey, ErrUnreadable, err)
	}
	return nil
}

// Find returns a step of the view, or false when it has no row.
func (v View) Find(generation int, name string, index int) (Step, bool) {
	return v.find(StepKey{ID: v.Video.ID, Generation: generation, Step: name, Index: index})
}

// StepOf returns the step that an intent asks for, or false when it has no row.
func (v View) StepOf(i Intent) (Step, bool) { return v.find(i.key(v.Video.ID)) }

func (v View) find(key StepKey) (Step, bool) {
	for _, s := range v.Steps {
		if s.Key == key {
			return s, true
		}
	}
	return Step{}, false
}

// Presentation collects what is committed of one generation.
func (v View) Presentation(generation int) (playlist.Presentation, error) {
	p := playlist.Presentation{Plan: v.Plans[generation], Parts: v.Parts[generation]}
	p.Chunks = make([]*video.ChunkOutput, len(p.Plan.Chunks))
	sound := 0
	for _, s := range v.Steps {
		if s.Key.Generation != generation || s.State != StepDone {
			continue
		}
		switch s.Key.Step {
		case StepAudio:
			sound++
		case StepEncode:
			if s.Key.Index >= len(p.Chunks) {
				continue
			}
			out := new(video.ChunkOutput)
			if err := json.Unmarshal(s.Output, out); err != nil {
				return p, fmt.Errorf("decode output of %s: %w", s.Key, err)
			}
			p.Chunks[s.Key.Index] = out
		}
	}
	p.AudioDone = sound >= p.Plan.SoundItems()
	return p, nil
}

// Keeps reports whether a generation is still needed: the one that plays, the
// newest one, and one that a clip is still to be cut from.
func (v View) Keeps(generation int) bool {
	return generation == v.Video.Serving || generation == v.Video.Generation ||
		slices.ContainsFunc(v.OpenClips(), func(i Intent) bool { return i.Generation == generation })
}

// Progress is how far the newest generation is.
type Progress struct {
	Percent     int
	ChunksDone  int
	ChunksTotal int
}

// Progress is what META alone says, without a further read: exactly how far a
// video is that is ready or not planned yet. Of any other it is exact only in
// ChunksTotal: nothing is counted as done but the planning.
func (r Record) Progress() (p Progress, exact bool) {
	p.ChunksTotal = r.Video.Chunks
	switch {
	case r.Video.State == video.Ready:
		p.Percent, p.ChunksDone = 100, p.ChunksTotal
		return p, true
	case p.ChunksTotal > 0:
		p.Percent = probeShare
		return p, false
	}
	return p, true
}

// The share of the work, in percent, that each kind of step is shown to be.
const (
	probeShare  = 2
	audioShare  = 3
	finishShare = 5
)

// Progress weighs chunks by their frames, so that it moves evenly.
func (v View) Progress() Progress {
	p, exact := v.Record.Progress()
	if exact {
		return p
	}
	plan := v.Plans[v.Video.Generation]
	sound := 0
	var done, total int64
	for _, c := range plan.Chunks {
		total += c.To - c.From
	}
	for _, s := range v.Steps {
		if s.Key.Generation != plan.Generation || s.State != StepDone {
			continue
		}
		switch {
		case s.Key.Step == StepEncode && s.Key.Index < len(plan.Chunks):
			p.ChunksDone++
			c := plan.Chunks[s.Key.Index]
			done += c.To - c.From
		case s.Key.Step == StepAudio:
			sound++
		}
	}
	if items := plan.SoundItems(); items > 0 {
		p.Percent += audioShare * min(sound, items) / items
	} else {
		p.Percent += audioShare
	}
	if total > 0 {
		p.Percent += int(done * (100 - probeShare - audioShare - finishShare) / total)
	}
	return p
}
