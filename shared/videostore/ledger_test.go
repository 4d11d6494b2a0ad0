package videostore_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// finished makes a video of 8 s at 30 frames per second that is ready and
// settled, and throws away what was sent for it.
func finished(t *testing.T, s *videostore.Store, out *outgoing) engine.ID {
	t.Helper()
	id := uploaded(t, s)
	probed(t, s, id, plan(2, false))
	finish(t, s, id, 1)
	marks, err := inflight(t, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if m.ID == id {
			if err := s.ClearInflight(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	out.take()
	return id
}

func finish(t *testing.T, s *videostore.Store, id engine.ID, generation int) {
	t.Helper()
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: workflow.StepFinish}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Commit(t.Context(), videostore.Commit{Output: video.FinishOutput{Frames: 240}, Edit: func(v *video.Video) {
		v.State, v.Playable, v.Serving = engine.Ready, true, generation
	}})
	if err := errors.Join(err, c.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// The reprocessings that are open at once are never more than allowed.
func TestOpenReprocessings(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	s.SetLimits(videostore.Limits{Reprocessings: 2})
	var ids []engine.ID
	for range 6 {
		ids = append(ids, finished(t, s, out))
	}
	ask := func(id engine.ID) bool {
		_, err := s.Reprocess(t.Context(), id)
		if err != nil && !errors.Is(err, videostore.ErrBusy) {
			t.Error(err)
		}
		return err == nil
	}
	var in atomic.Int64
	var wg sync.WaitGroup
	for _, id := range ids[:4] {
		wg.Go(func() {
			if ask(id) {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 2 {
		t.Fatalf("%d are let in at once, want 2", in.Load())
	}
	states := func() (active, idle []engine.ID) {
		for _, id := range ids {
			rec, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Subject.State.Active() {
				active = append(active, id)
			} else {
				idle = append(idle, id)
			}
		}
		return active, idle
	}
	fill := func() {
		t.Helper()
		azuritetest.Eventually(t, 20*time.Second, func() error {
			active, idle := states()
			if len(active) == 2 {
				return nil
			}
			ask(idle[0])
			return errors.New("refused while there is room")
		})
	}
	fill()
	active, idle := states()
	if ask(idle[0]) {
		t.Error("one too many is let in")
	}
	if _, err := s.Cancel(t.Context(), active[0]); err != nil {
		t.Fatal(err)
	}
	fill()
}
