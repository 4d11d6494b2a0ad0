package videostore

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// previewRows is the kind of the rows of previews: PREVIEW:<generation>:<step>:<chunk>.
const previewRows = "PREVIEW"

func previewKey(key engine.Key) string {
	return fmt.Sprintf("%s:%05d:%s:%05d", previewRows, key.Generation, key.Step, key.Index)
}

// PreviewPrefix is where one attempt at a preview of the run writes. Beside the prefixes
// of attempts at the run itself, because the janitor keeps the committed one of those.
func PreviewPrefix(k engine.Key, attempt string) string {
	return fmt.Sprintf("%sg%05d/preview/%s/", engine.Prefix(k.ID), k.Generation, attempt)
}

// BeginPreview returns what a preview of a chunk is made from. Nothing is claimed: previews
// keep no worker from making the chunk itself. there says that it has a preview already.
// engine.ErrDone when the chunk is committed, engine.ErrGone when the video no longer wants it.
func (s *Store) BeginPreview(ctx context.Context, key engine.Key) (rec Record, plan video.Plan, there bool, _ error) {
	rec, plan, err := s.Look(ctx, key)
	if err == nil {
		there, err = s.HasRow(ctx, key.ID, previewKey(key))
	}
	return rec, plan, there, err
}

// AddPreview writes what can be watched of a chunk, in the place of an earlier preview.
// Safe to repeat.
func (s *Store) AddPreview(ctx context.Context, key engine.Key, preview video.Preview) error {
	return s.AddRow(ctx, key.ID, previewKey(key), struct{ Doc video.Preview }{preview})
}

// Previews returns the previews of a generation, by chunk.
func Previews(v View, generation int) (map[int]video.Preview, error) {
	previews := map[int]video.Preview{}
	for _, row := range v.Rows[previewRows] {
		of, preview, err := readPreview(row)
		if err != nil {
			return nil, err
		}
		if of == generation {
			previews[preview.Chunk] = preview
		}
	}
	return previews, nil
}

// readPreview reads a row, and the generation in its key.
func readPreview(row tablestore.Entity) (generation int, preview video.Preview, err error) {
	_, rest, _ := strings.Cut(row.RowKey, ":")
	text, _, _ := strings.Cut(rest, ":")
	generation, err = strconv.Atoi(text)
	if err == nil {
		err = row.JSON("Doc", &preview)
	}
	return generation, preview, err
}

func checkPreview(row tablestore.Entity) error {
	_, _, err := readPreview(row)
	return err
}

// BlobsOfPreviews returns how the names of blobs begin of the previews that are still of use to
// a viewer: their chunk, or the next one, is not committed.
func BlobsOfPreviews(v View, generation int) (names []string, _ error) {
	plan, done := v.Plans[generation], map[int]bool{}
	for _, r := range v.Runs {
		if r.Key.Generation == generation && r.State == engine.RunDone && workflow.Declaration.StepOf(r.Key).Makes == workflow.Pictures {
			done[r.Key.Index] = true
		}
	}
	previews, err := Previews(v, generation)
	for chunk, preview := range previews {
		if done[chunk] && (chunk+1 == len(plan.Chunks) || done[chunk+1]) {
			continue
		}
		for _, r := range preview.Pictures.Renditions {
			names = append(names, path.Dir(r.Blob)+"/") // with its sound
		}
	}
	return names, err
}
