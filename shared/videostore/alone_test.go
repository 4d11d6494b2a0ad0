package videostore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// promising is a plan that stores what is declared today.
func promising() video.Plan {
	p := plan(1, true)
	p.Promises = slices.DeleteFunc(workflow.PromisesFor(p), func(p engine.Promise) bool { return p.Gate })
	return p
}

// parts ends every part of a plan as its step would, but those that skip names.
func parts(t *testing.T, s *videostore.Store, id engine.ID, p video.Plan, skip ...string) {
	t.Helper()
	for _, promise := range workflow.Declaration.StepsIn(p.Plan, engine.Part) {
		for i := range promise.Items {
			k := engine.Key{ID: id, Generation: p.Generation, Step: promise.Step.Name, Index: i}
			if slices.Contains(skip, k.Step) {
				continue
			}
			c, err := s.Claim(t.Context(), k, k.ItemID(), "w", time.Time{})
			if err == nil {
				err = c.Commit(t.Context(), videostore.Commit{Output: video.ChunkOutput{Frames: 120}})
			}
			if err != nil {
				t.Fatalf("%s: %v", k, err)
			}
		}
	}
}

// readyToPlay makes a video ready as the last step and its runner do.
func readyToPlay(t *testing.T, s *videostore.Store, id engine.ID, generation int) {
	t.Helper()
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: workflow.Declaration.Only(engine.Last).Name}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	commit := videostore.Commit{Output: video.FinishOutput{Frames: 120}, Edit: func(v *video.Video) {
		v.State, v.Playable, v.Serving = engine.Ready, true, generation
	}}
	if err := c.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	if err := c.SendOutbox(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func asks(items []azq.Item, step string) bool {
	return slices.ContainsFunc(items, func(i azq.Item) bool { return i.Kind == step })
}

// lone are the declared steps whose failure is theirs alone.
func lone() (steps []engine.Step) {
	for _, s := range workflow.Declaration.Steps {
		if s.IsOptional() && s.Stage != engine.OnRequest {
			steps = append(steps, s)
		}
	}
	return steps
}

// Every step that fails alone: a ready video stays ready whatever becomes of it,
// and it can be retried until it is done.
func TestStepsThatFailAlone(t *testing.T) {
	t.Parallel()
	failure := &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}
	for _, step := range lone() {
		t.Run(step.Name, func(t *testing.T) {
			t.Parallel()
			s, out := setup(t)
			id, p := uploaded(t, s), promising()
			probed(t, s, id, p)
			k := engine.Key{ID: id, Generation: 1, Step: step.Name}
			claim := func() *videostore.Claim {
				t.Helper()
				c, err := s.Claim(t.Context(), k, "m-"+step.Name, "w", time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			ready := func(percent int) videostore.View {
				t.Helper()
				view, err := s.View(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if v := view.Subject; v.State != engine.Ready || v.Error != nil || videostore.ProgressOf(view).Percent != percent {
					t.Fatalf("the video is %s with %v at %d %%, want ready", v.State, v.Error, videostore.ProgressOf(view).Percent)
				}
				return view
			}
			parts(t, s, id, p, step.Name)
			if step.Stage == engine.Part {
				if won, err := fanIn(t, s, id); err != nil || won {
					t.Fatalf("the last step does not wait for %s: %t, %v", step.Name, won, err)
				}
				if err := claim().Fail(t.Context(), failure); err != nil {
					t.Fatal(err)
				}
			}
			if won, err := fanIn(t, s, id); err != nil || !won {
				t.Fatalf("the last step is not promised: %t, %v", won, err)
			}
			out.take()
			readyToPlay(t, s, id, 1)
			if step.Stage == engine.AfterReady {
				if !asks(out.takeItems(), step.Name) {
					t.Fatalf("%s is not promised", step.Name)
				}
				if open := ready(100).OpenOptional(); len(open) == 0 {
					t.Error("what is promised is not open")
				}
				if err := s.FailStep(t.Context(), k, failure); err != nil { // poison, never claimed
					t.Fatal(err)
				}
			}
			for _, i := range ready(100).OpenOptional() {
				if i.Step == step.Name {
					t.Error("what has failed is still waited for")
				}
			}
			if _, err := s.Retry(t.Context(), id); err != nil {
				t.Fatalf("retry: %v", err)
			}
			if !asks(out.takeItems(), step.Name) {
				t.Fatal("a retry does not send it again")
			}
			if err := claim().Fail(t.Context(), failure); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Retry(t.Context(), id); err != nil {
				t.Fatalf("retry again: %v", err)
			}
			c := claim()
			commit := videostore.Commit{}
			if step.Count == workflow.PerChunk { // which leaves nothing with the video
				if err := c.Commit(t.Context(), commit); err != nil {
					t.Fatal(err)
				}
				return
			}
			commit = videostore.Commit{Facts: map[string]int{"x": 1}, Files: []engine.File{{
				Name: "a.txt", Blob: k.BlobPrefix(c.Run.Attempt) + "a.txt",
			}}}
			if err := c.Commit(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
			view := ready(100)
			made, found := view.Subject.MadeBy(step.Name, 1)
			if !found || string(made.Facts) != `{"x":1}` || len(made.Files) != 1 {
				t.Errorf("left with the video: %+v", made)
			}
			if !view.Unsent {
				t.Error("META changed without a message to follow it")
			}
			if err := s.Flush(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Claim(t.Context(), k, "again", "w", time.Time{}); !errors.Is(err, engine.ErrDone) {
				t.Errorf("a second delivery: %v, want ErrDone", err)
			}
		})
	}
}
