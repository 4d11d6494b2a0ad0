package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// noQueues takes every message and carries none.
type noQueues struct{}

func (noQueues) SendItem(context.Context, string, azq.Item, time.Duration) error { return nil }
func (noQueues) Lane(context.Context, string, bool) (int, bool)                  { return 0, false }
func (noQueues) Waiting(context.Context, string) (bool, error)                   { return true, nil }

// merging lists the frames of all chunks, many times over.
type merging struct{ frames []int64 }

func (m *merging) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	chunks, err := pipeline.Outputs[video.ChunkOutput](ctx, w, workflow.StepEncode)
	if err != nil {
		return videostore.Commit{}, err
	}
	for _, chunk := range chunks {
		m.frames = append(m.frames, chunk.Frames)
	}
	return videostore.Commit{Facts: map[string]any{"frames": slices.Repeat(m.frames, 200)}}, nil
}

// A step after ready merges what the chunks' rows say, and its result, which is too large for
// META, is a file.
func TestMergeOfManyOutputs(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{video.MediaContainer}, Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	videos, blobs := videostore.New(a, noQueues{}), blobstore.New(a)
	v := video.Video{ID: video.NewID(), Title: "x", State: video.Processing, Generation: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	if _, err := videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	plan := video.Plan{Generation: 1, FPS: video.Rational{Num: 30, Den: 1}, Chunks: []video.Chunk{{To: 60}, {From: 60, To: 90}}}
	plan.Promises = workflow.PromisesFor(plan)
	commit := func(step string, index int, c videostore.Commit) {
		t.Helper()
		claim, err := videos.Claim(t.Context(), workflow.Key{ID: v.ID, Generation: 1, Step: step, Index: index}, step, "w", time.Time{})
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if err := claim.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	commit(workflow.StepProbe, 0, videostore.Commit{Plan: &plan})
	commit(workflow.StepEncode, 1, videostore.Commit{Output: video.ChunkOutput{Frames: 30}})
	commit(workflow.StepEncode, 0, videostore.Commit{Output: video.ChunkOutput{Frames: 60}})
	commit(workflow.StepFinish, 0, videostore.Commit{Video: func(v *video.Video) { v.State, v.Serving = video.Ready, 1 }})

	merge := &merging{}
	runner := &pipeline.Runner{Videos: videos, Blobs: blobs, Step: merge, Scratch: t.TempDir(), Watch: time.Minute, Log: slog.Default()}
	key := workflow.Key{ID: v.ID, Generation: 1, Step: workflow.StepDigest}
	item, err := azq.NewItem(key.Step, string(v.ID), key.ItemID(), key.Payload())
	if err := errors.Join(err, runner.Handle(t.Context(), &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 1}})); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(merge.frames, []int64{60, 30}) {
		t.Errorf("outputs in the order %v", merge.frames)
	}
	rec, err := videos.Get(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	made := rec.Video.Made
	if len(made) != 1 || len(made[0].Files) != 1 || made[0].Facts != nil || !strings.HasSuffix(made[0].Files[0].Blob, "/facts.json") {
		t.Fatalf("made %+v", made)
	}
	data, err := blobs.Get(t.Context(), video.MediaContainer, made[0].Files[0].Blob)
	var facts struct{ Frames []int64 }
	if err := errors.Join(err, json.Unmarshal(data, &facts)); err != nil || len(facts.Frames) != 400 {
		t.Errorf("%d frames in the file, %v", len(facts.Frames), err)
	}
}
