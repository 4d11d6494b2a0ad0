// Package twins finds uploads of a video that exists already.
package twins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/corona10/goimagehash"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/duplicates"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
	"github.com/cutroom/cutroom/workerrole/internal/step"
)

// New returns the feature.
func New(a *azstore.Account, n step.Needs) step.Feature {
	index := duplicates.New(a)
	return step.Feature{
		Tables: []string{duplicates.Table}, Purge: index.Remove,
		Steps: map[string]pipeline.Step{workflow.StepDigest: digest{n, index}},
	}
}

// digest finds an earlier upload of the same video: the same bytes, or the same pictures
// in another file.
//
//	Reads   the upload as it is, and three tiles of the storyboard
//	Writes  table twins; the facts of META: sha256, looks, sameAs, looksLike
//	Errors  fails alone: a video without these facts plays as well
//	Repeat  writes the same; the earlier of two twins stays the earlier
type digest struct {
	step.Needs
	twins *duplicates.Index
}

// facts identify an upload. They do not name a twin that is not public.
type facts struct {
	SHA256    string `json:"sha256"`
	Looks     string `json:"looks,omitempty"`     // perceptual hashes of three pictures, hex
	SameAs    string `json:"sameAs,omitempty"`    // the public video that has the same bytes
	LooksLike string `json:"looksLike,omitempty"` // the public video that has the same pictures
}

// Run implements pipeline.Step.
func (s digest) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	none := videostore.Commit{}
	var found facts
	upload, err := w.ReadUpload(ctx)
	if err != nil {
		return none, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, upload)
	if err != nil {
		return none, fmt.Errorf("read all of %s: %w", w.Subject.ID, err)
	}
	found.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if found.Looks, err = s.looks(ctx, w); err != nil {
		return none, err
	}
	if found.SameAs, err = s.twin(ctx, w.Subject.ID, duplicates.SameFile(found.SHA256, size)); err != nil {
		return none, err
	}
	if found.Looks != "" {
		key := duplicates.SameLook(found.Looks, int(math.Round(w.Plan.DurationSeconds)))
		if found.LooksLike, err = s.twin(ctx, w.Subject.ID, key); err != nil {
			return none, err
		}
	}
	return videostore.Commit{Output: found, Facts: found}, nil
}

// twin returns the video that had a key first, or "" when it is this one or is not
// public.
func (s digest) twin(ctx context.Context, id engine.ID, key string) (string, error) {
	first, err := s.twins.First(ctx, id, key, s.Videos.Exists)
	if err != nil || first == id {
		return "", err
	}
	rec, err := s.Videos.Get(ctx, first)
	if errors.Is(err, engine.ErrNotFound) || err == nil && rec.Subject.Visibility != video.Public {
		return "", nil
	}
	return string(first), err
}

// looks hashes three tiles of the storyboard. It is empty for a video without one.
func (s digest) looks(ctx context.Context, w *pipeline.Work) (hashes string, _ error) {
	view, err := s.Videos.View(ctx, w.Subject.ID)
	if err != nil {
		return "", fmt.Errorf("read steps of %s: %w", w.Subject.ID, err)
	}
	whole, err := videostore.Whole(view, w.Plan.Generation)
	if err != nil || whole == nil || whole.Sprite == "" {
		return "", err
	}
	picture, err := s.Blobs.Get(ctx, engine.MediaContainer, whole.Sprite)
	if err != nil {
		return "", fmt.Errorf("read the storyboard: %w", err)
	}
	tiles, err := media.ReadSprite(picture, w.Plan, ffmpeg.TilesIn(w.Plan, 0, whole.Frames))
	if err != nil {
		return "", err
	}
	for _, share := range []float64{0.1, 0.5, 0.9} {
		hash, err := goimagehash.PerceptionHash(tiles[int(share*float64(len(tiles)))])
		if err != nil {
			return "", fmt.Errorf("hash a picture: %w", err)
		}
		hashes += fmt.Sprintf("%016x", hash.GetHash())
	}
	return hashes, nil
}
