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
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// The steps of this test: one that runs for each chunk after ready, and one that merges.
const (
	stepSpotted = "spotted"
	stepMerged  = "merged"
)

var merged = []engine.Step{
	{Name: stepSpotted, Stage: engine.AfterReady, Count: workflow.PerChunk, Queues: []string{workflow.EncodeLow}},
	{Name: stepMerged, Stage: engine.AfterReady, Queues: []string{workflow.Audio}},
}

// merging lists the frames of all chunks of a step, many times over.
type merging struct {
	of     string
	frames []int64
}

func (m *merging) Run(ctx context.Context, w *pipeline.Work) (videostore.Commit, error) {
	chunks, err := runner.Outputs[video.ChunkOutput](ctx, w.Work, m.of)
	if err != nil {
		return videostore.Commit{}, err
	}
	m.frames = nil
	for _, chunk := range chunks {
		if chunk == nil {
			chunk = &video.ChunkOutput{Frames: -1}
		}
		m.frames = append(m.frames, chunk.Frames)
	}
	return videostore.Commit{Facts: map[string]any{"frames": slices.Repeat(m.frames, 200)}}, nil
}

// merge is a ready video of two chunks, with the work of its steps.
type merge struct {
	videos *videostore.Store
	blobs  *blobstore.Store
	id     engine.ID
}

func newMerge(t *testing.T) merge {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{engine.MediaContainer}, Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	m := merge{videostore.New(a, &enginetest.Mailbox{}), blobstore.New(a), engine.NewID()}
	v := video.Video{
		Meta:  engine.Meta{ID: m.id, State: engine.Processing, Generation: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()},
		Title: "x",
	}
	if _, err := m.videos.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	plan := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1},
		Chunks: []video.Chunk{{To: 60}, {From: 60, To: 90}},
	}
	plan.Promises = []engine.Promise{
		{Step: workflow.Declaration.MakerOf(workflow.Pictures), Items: 2, Windowed: true, Queue: workflow.EncodeLow},
		{Step: stepSpotted, Items: 2, Windowed: true, After: true, Optional: true, Queue: workflow.EncodeLow},
		{Step: stepMerged, Items: 1, After: true, Optional: true, Queue: workflow.Audio},
	}
	m.commit(t, workflow.Declaration.Only(engine.First).Name, 0, videostore.Commit{Plan: &plan})
	m.commit(t, workflow.Declaration.MakerOf(workflow.Pictures), 1, videostore.Commit{Output: video.ChunkOutput{Frames: 30}})
	m.commit(t, workflow.Declaration.MakerOf(workflow.Pictures), 0, videostore.Commit{Output: video.ChunkOutput{Frames: 60}})
	m.commit(t, workflow.Declaration.Only(engine.Last).Name, 0, videostore.Commit{Edit: func(v *video.Video) { v.State, v.Serving = engine.Ready, 1 }})
	return m
}

func (m merge) commit(t *testing.T, step string, index int, c videostore.Commit) {
	t.Helper()
	claim, err := m.videos.Claim(t.Context(), engine.Key{ID: m.id, Generation: 1, Step: step, Index: index}, step, "w", time.Time{})
	if err == nil {
		err = claim.Commit(t.Context(), c)
	}
	if err != nil {
		t.Fatalf("%s: %v", step, err)
	}
}

// run delivers the message of the merging step.
func (m merge) run(t *testing.T, step pipeline.Step) error {
	t.Helper()
	runner := pipeline.New(pipeline.Runner{Blobs: m.blobs, Scratch: t.TempDir(), Watch: time.Minute, Log: slog.Default()}, m.videos, pipeline.Hooks{}, step)
	key := engine.Key{ID: m.id, Generation: 1, Step: stepMerged}
	item, err := azq.NewItem(key.Step, string(m.id), key.ItemID(), key.Payload())
	if err != nil {
		t.Fatal(err)
	}
	return runner.Handle(t.Context(), &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 1}})
}

// A step after ready merges what the chunks' rows say, and its result, which is too large for
// META, is a file.
func TestMergeOfManyOutputs(t *testing.T) {
	t.Parallel()
	m, step := newMerge(t), &merging{of: workflow.Declaration.MakerOf(workflow.Pictures)}
	if err := m.run(t, step); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(step.frames, []int64{60, 30}) {
		t.Errorf("outputs in the order %v", step.frames)
	}
	rec, err := m.videos.Get(t.Context(), m.id)
	if err != nil {
		t.Fatal(err)
	}
	made := rec.Subject.Made
	if len(made) != 1 || len(made[0].Files) != 1 || made[0].Facts != nil || !strings.HasSuffix(made[0].Files[0].Blob, "/facts.json") {
		t.Fatalf("made %+v", made)
	}
	data, err := m.blobs.Get(t.Context(), engine.MediaContainer, made[0].Files[0].Blob)
	var facts struct{ Frames []int64 }
	if err := errors.Join(err, json.Unmarshal(data, &facts)); err != nil || len(facts.Frames) != 400 {
		t.Errorf("%d frames in the file, %v", len(facts.Frames), err)
	}
}

// A step that merges the runs of another step after ready waits for them at no cost of an
// attempt, and goes without those that fail.
func TestMergeWaitsForAStepAfterReady(t *testing.T) {
	t.Parallel()
	m, step := newMerge(t), &merging{of: stepSpotted}
	m.commit(t, stepSpotted, 1, videostore.Commit{Output: video.ChunkOutput{Frames: 30}})
	err := m.run(t, step)
	if fate, _ := azq.FateOf(err); fate != azq.FateSnoozed {
		t.Errorf("a run is open: %v, want a snooze", err)
	}
	view, err := m.videos.View(t.Context(), m.id)
	if err != nil {
		t.Fatal(err)
	}
	waited, _ := view.Find(1, stepMerged, 0)
	if tries := waited.AllAttempts(); len(tries) != 1 || tries[0].Outcome != engine.OutcomeReleased {
		t.Errorf("its row tells of %+v", tries)
	}
	failed := engine.Key{ID: m.id, Generation: 1, Step: stepSpotted}
	if err := m.videos.FailStep(t.Context(), failed, &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	if err := m.run(t, step); err != nil || !slices.Equal(step.frames, []int64{-1, 30}) {
		t.Errorf("a run has failed: %v, %v", step.frames, err)
	}
}
