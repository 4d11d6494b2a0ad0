// Package previews keeps what can be watched of a chunk that a viewer went to, before the chunk
// is made: rows of kind PREVIEW, and how a playlist shows them.
//
// The web role shows them (webrole/internal/playback, and package seek); a package of the same
// name in the worker role makes them.
package previews

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Preview is what can be watched of a chunk that is not committed yet: its smallest
// rendition, and the sound that belongs to it. It is made for a viewer who went there.
type Preview struct {
	Chunk    int               `json:"chunk"`
	Pictures video.ChunkOutput `json:"pictures"`        // one rendition: the last of the plan
	Sound    *video.AudioPart  `json:"sound,omitempty"` // nil when there is none
}

// rowKind is the kind of the rows of previews: PREVIEW:<generation>:<step>:<chunk>.
const rowKind = "PREVIEW"

func keyOf(run engine.Key) string {
	return fmt.Sprintf("%s:%05d:%s:%05d", rowKind, run.Generation, run.Step, run.Index)
}

// Store keeps previews. Safe for concurrent use.
type Store struct{ videos *videostore.Store }

// Open returns the previews of a store of videos, which shows them from now on. Call it before
// the store is used.
func Open(videos *videostore.Store) Store {
	videos.RowKinds[rowKind] = func(row tablestore.Entity) error {
		_, _, err := read(row)
		return err
	}
	videos.Preview = func(v videostore.View, p playlist.Presentation) (playlist.Presentation, map[int]bool, error) {
		made, err := Of(v, p.Plan.Generation)
		chunks := map[int]bool{}
		for chunk := range made {
			chunks[chunk] = true
		}
		return Show(p, made), chunks, err
	}
	return Store{videos}
}

// Prefix is where one attempt at a preview of the run writes. Beside the prefixes
// of attempts at the run itself, because the janitor keeps the committed one of those.
func Prefix(k engine.Key, attempt string) string {
	return fmt.Sprintf("%sg%05d/preview/%s/", engine.Prefix(k.ID), k.Generation, attempt)
}

// Begin returns what a preview of a chunk is made from. Nothing is claimed: previews
// keep no worker from making the chunk itself. there says that it has a preview already.
// engine.ErrDone when the chunk is committed, engine.ErrGone when the video no longer wants it.
func (s Store) Begin(ctx context.Context, key engine.Key) (rec videostore.Record, plan video.Plan, there bool, _ error) {
	rec, plan, err := s.videos.Look(ctx, key)
	if err == nil {
		there, err = s.videos.HasRow(ctx, key.ID, keyOf(key))
	}
	return rec, plan, there, err
}

// Add writes what can be watched of a chunk, in the place of an earlier preview.
// Safe to repeat.
func (s Store) Add(ctx context.Context, key engine.Key, preview Preview) error {
	return s.videos.AddRow(ctx, key.ID, keyOf(key), struct{ Doc Preview }{preview})
}

// Of returns the previews of a generation, by chunk.
func Of(v videostore.View, generation int) (map[int]Preview, error) {
	previews := map[int]Preview{}
	for _, row := range v.Rows[rowKind] {
		of, preview, err := read(row)
		if err != nil {
			return nil, err
		}
		if of == generation {
			previews[preview.Chunk] = preview
		}
	}
	return previews, nil
}

// read reads a row, and the generation in its key.
func read(row tablestore.Entity) (generation int, preview Preview, err error) {
	_, rest, _ := strings.Cut(row.RowKey, ":")
	text, _, _ := strings.Cut(rest, ":")
	generation, err = strconv.Atoi(text)
	if err == nil {
		err = row.JSON("Doc", &preview)
	}
	return generation, preview, err
}

// Blobs returns how the names of blobs begin of the previews that are still of use to
// a viewer: their chunk is not committed.
func (Store) Blobs(v videostore.View, generation int) (names []string, _ error) {
	previews, err := Of(v, generation)
	for chunk, preview := range previews {
		run, _ := v.Find(generation, workflow.Declaration.MakerOf(workflow.Pictures), chunk)
		if run.State == engine.RunDone {
			continue
		}
		for _, r := range preview.Pictures.Renditions {
			names = append(names, path.Dir(r.Blob)+"/") // with its sound
		}
	}
	return names, err
}

// Show returns what a viewer can watch who went to a chunk before it was committed: the
// smallest rendition alone, of chunks that are committed or have a preview.
func Show(p playlist.Presentation, made map[int]Preview) playlist.Presentation {
	last := len(p.Plan.Renditions) - 1
	if last < 0 {
		return p
	}
	shown := p
	shown.Preview = true
	shown.Plan.Renditions = p.Plan.Renditions[last:]
	shown.Chunks = make([]*video.ChunkOutput, len(p.Chunks))
	shown.Parts = slices.Clone(p.Parts) // before those of previews: the first that has a segment is heard
	for i, c := range p.Chunks {
		preview, found := made[i]
		switch {
		case c != nil:
			low := *c
			low.Renditions = c.Renditions[min(last, len(c.Renditions)):]
			shown.Chunks[i] = &low
		case found && p.Plan.Last(i): // how long it is the source says
			shown.Chunks[i] = &preview.Pictures
		case found:
			shown.Chunks[i] = preview.within(len(p.Plan.SegmentsBefore(i+1)) - len(p.Plan.SegmentsBefore(i)))
		}
		if found && preview.Sound != nil {
			shown.Parts = append(shown.Parts, *preview.Sound)
		}
	}
	return shown
}

// within returns what a preview has of its chunk, of so many segments: one of release 0.1.0 runs
// on into the next chunk, whose segments have other addresses.
func (p Preview) within(segments int) *video.ChunkOutput {
	made := p.Pictures
	if len(made.Renditions) == 0 || len(made.Renditions[0].Segments) <= segments {
		return &made
	}
	r := made.Renditions[0]
	for _, beyond := range r.Segments[segments:] {
		made.Frames -= beyond.Frames
	}
	r.Segments = r.Segments[:segments]
	made.Renditions = []video.RenditionOutput{r}
	return &made
}
