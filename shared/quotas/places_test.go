package quotas_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/quotas"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// finished makes a video of 8 s at 30 frames per second that plays.
func finished(t *testing.T, s *videostore.Store) engine.ID {
	t.Helper()
	v := ownedBy(video.LocalOwner, 900)
	plan := video.Plan{
		Plan: engine.Plan{Generation: 1}, FPS: video.Rational{Num: 30, Den: 1}, SegmentFrames: 120, Frames: 240,
		Renditions: []video.Rendition{{Name: "240p", Width: 426, Height: 240, MaxRate: 450_000}},
		Chunks:     []video.Chunk{{To: 240}},
	}
	_, err := s.Create(t.Context(), v)
	if err == nil {
		_, err = s.Uploaded(t.Context(), v.ID, epoch, "etag")
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), engine.Key{ID: v.ID, Generation: 1, Step: workflow.StepProbe}, "m", "w", time.Time{})
	if err == nil {
		err = c.Commit(t.Context(), videostore.Commit{Plan: &plan, Edit: func(v *video.Video) {
			v.State, v.Playable, v.Serving = engine.Ready, true, 1
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// The reprocessings that are open at once are never more than allowed.
func TestOpenReprocessings(t *testing.T) {
	t.Parallel()
	s, _ := open(opened(t), quotas.Limits{Reprocessings: 2})
	var ids []engine.ID
	for range 6 {
		ids = append(ids, finished(t, s))
	}
	ask := func(id engine.ID) bool {
		_, err := s.Reprocess(t.Context(), id)
		if err != nil && !errors.Is(err, quotas.ErrBusy) {
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
