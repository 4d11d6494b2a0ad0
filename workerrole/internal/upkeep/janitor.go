package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// Janitor removes blobs that no row names: output of attempts that were killed
// or lost the race, of generations that were replaced, and of workers that wrote
// after a purge. It lists whole containers, so it runs seldom.
type Janitor struct {
	Videos *videostore.Store
	Blobs  *blobstore.Store
	// Grace protects the output of attempts that have not committed yet.
	Grace time.Duration
	Log   *slog.Logger
}

// Pass looks once at every blob. Names start with the video's id, so each video
// is read once.
func (j *Janitor) Pass(ctx context.Context) (Pass, error) {
	for _, container := range []string{video.MediaContainer, video.SourcesContainer, video.ClaimsContainer} {
		if err := j.sweep(ctx, container); err != nil {
			return Pass{}, fmt.Errorf("sweep container %s: %w", container, err)
		}
	}
	return Pass{}, nil
}

func (j *Janitor) sweep(ctx context.Context, container string) error {
	var current string
	var named *names
	removed := 0
	for blob, err := range j.Blobs.List(ctx, container, "") {
		if err != nil {
			return err
		}
		if time.Since(blob.LastModified) < j.Grace {
			continue
		}
		owner, _, _ := strings.Cut(blob.Name, "/")
		if owner != current || named == nil {
			if named, err = j.named(ctx, owner); err != nil {
				return err
			}
			current = owner
		}
		if named.has(blob.Name) {
			continue
		}
		if err := j.Blobs.Delete(ctx, container, blob.Name); err != nil {
			return err
		}
		removed++
	}
	if removed > 0 {
		j.Log.Info("removed blobs that no row names", "container", container, "count", removed)
	}
	return nil
}

// names is what the rows of one video name.
type names struct {
	blobs    map[string]bool
	prefixes []string // of attempts that are running, and of claim checks under way
}

func (n names) has(name string) bool {
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return n.blobs[name]
}

func (j *Janitor) named(ctx context.Context, owner string) (*names, error) {
	n := &names{blobs: map[string]bool{}}
	id, err := video.ParseID(owner)
	if err != nil {
		return n, nil // nobody's
	}
	view, err := j.Videos.ViewWithClips(ctx, id)
	if errors.Is(err, videostore.ErrNotFound) {
		return n, nil
	}
	if err != nil {
		return nil, err
	}
	n.blobs[video.SourceBlob(id)] = true
	// People may still be watching the generation that was replaced just now.
	replaced := time.Since(view.Video.ReadyAt) >= j.Grace
	keeps := func(generation int) bool { return !replaced || view.Keeps(generation) }
	if !view.Video.State.Terminal() {
		// A message under way may carry a claim check under the video's prefix.
		n.prefixes = append(n.prefixes, video.Prefix(id)+string(id)+".")
	}
	for generation, parts := range view.Parts {
		if keeps(generation) {
			for _, part := range parts {
				n.blobs[part.Blob] = true
			}
		}
	}
	for generation, plan := range view.Plans {
		if keeps(generation) {
			n.blobs[plan.Source] = true
		}
	}
	for _, s := range view.Steps {
		if !keeps(s.Key.Generation) && s.Key.Step != videostore.StepClip {
			continue // clips stay when what they were cut from is replaced
		}
		if s.State == videostore.StepRunning {
			n.prefixes = append(n.prefixes, video.AttemptPrefix(id, s.Key.Generation, s.Key.Step, s.Key.Index, s.Attempt))
		}
		if err := n.addOutput(s); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// addOutput names the blobs of a committed step.
func (n *names) addOutput(s videostore.Step) error {
	if s.State != videostore.StepDone || len(s.Output) == 0 {
		return nil
	}
	switch s.Key.Step {
	case videostore.StepEncode:
		var out video.ChunkOutput
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return fmt.Errorf("decode output of %s: %w", s.Key, err)
		}
		n.blobs[out.Tiles], n.blobs[out.Poster] = true, true
		for _, r := range out.Renditions {
			n.blobs[r.Blob] = true
		}
	case videostore.StepClip:
		var out video.ClipOutput
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return fmt.Errorf("decode output of %s: %w", s.Key, err)
		}
		n.blobs[out.Blob] = true
	case videostore.StepFinish:
		var out video.FinishOutput
		if err := json.Unmarshal(s.Output, &out); err != nil {
			return fmt.Errorf("decode output of %s: %w", s.Key, err)
		}
		n.prefixes = append(n.prefixes, out.Prefix)
	}
	return nil
}
