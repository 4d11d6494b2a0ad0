package videostore_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func clipOf(id engine.ID, first int) engine.Key {
	return engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: first, Length: 9}
}

// allowed asks for n clips at once and returns those that are let in.
func allowed(t *testing.T, s *videostore.Store, keys []engine.Key) (in []engine.Key) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, k := range keys {
		wg.Go(func() {
			_, err := s.RequestClip(t.Context(), k, video.LocalOwner)
			if err != nil && !errors.Is(err, videostore.ErrBusy) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				in = append(in, k)
			}
		})
	}
	wg.Wait()
	return in
}

// The clips of one video that are open at once are as many as allowed, however
// many ask at once; what is there already is no new work; a clip that ended makes
// room.
func TestOpenClipsOfOneVideo(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	s.SetLimits(videostore.Limits{ClipsOfVideo: 3})
	var keys []engine.Key
	for i := range 8 {
		keys = append(keys, clipOf(id, i))
	}
	in := allowed(t, s, keys)
	if len(in) != 3 || len(out.take()) != 3 {
		t.Fatalf("%d of 8 are let in, want 3", len(in))
	}
	if again := allowed(t, s, in); len(again) != 3 || len(out.take()) != 0 {
		t.Errorf("asking again for what is open: %d of 3 answered", len(again))
	}
	c, err := s.Claim(t.Context(), in[0], "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RequestClip(t.Context(), clipOf(id, 20), video.LocalOwner); !errors.Is(err, videostore.ErrBusy) {
		t.Errorf("while one is running: %v, want ErrBusy", err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: video.ClipOutput{Blob: "b"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RequestClip(t.Context(), clipOf(id, 20), video.LocalOwner); err != nil {
		t.Errorf("after one is done: %v", err)
	}
}

// The clips of all videos together are never more than allowed, and lines of
// clips that ended, failed or went with their video make room.
func TestOpenClipsOfAllVideos(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	s.SetLimits(videostore.Limits{Clips: 4})
	var ids []engine.ID
	var keys []engine.Key
	for range 3 {
		id := finished(t, s, out)
		ids = append(ids, id)
		for i := range 3 {
			keys = append(keys, clipOf(id, i))
		}
	}
	in := map[engine.Key]bool{}
	for _, k := range allowed(t, s, keys) { // at once: never too many
		in[k] = true
	}
	if len(in) != 4 {
		t.Fatalf("%d clips are let in, want 4", len(in))
	}
	fill := func() {
		t.Helper()
		azuritetest.Eventually(t, 20*time.Second, func() error { // a refusal holds for a moment
			for _, k := range keys {
				if len(in) == 4 {
					return nil
				}
				if _, err := s.RequestClip(t.Context(), k, video.LocalOwner); err == nil {
					in[k] = true
				} else if !errors.Is(err, videostore.ErrBusy) {
					t.Fatal(err)
				}
			}
			return errors.New("refused while there is room")
		})
	}
	fill()
	if _, err := s.RequestClip(t.Context(), clipOf(ids[0], 50), video.LocalOwner); !errors.Is(err, videostore.ErrBusy) {
		t.Fatalf("one too many: %v, want ErrBusy", err)
	}
	for k := range in {
		c, err := s.Claim(t.Context(), k, "m", "w", time.Time{})
		if err == nil && k.ID == ids[0] {
			err = c.Fail(t.Context(), &engine.Failure{Code: engine.ProcessingFailed})
		} else if err == nil {
			err = c.Commit(t.Context(), videostore.Commit{Output: video.ClipOutput{Blob: "b"}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in, keys = map[engine.Key]bool{}, nil
	for i := range 9 {
		keys = append(keys, clipOf(ids[i%3], 60+i))
	}
	fill()
	for _, id := range ids {
		if _, err := s.Delete(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Erase(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
	}
	id := finished(t, s, out)
	in, keys = map[engine.Key]bool{}, []engine.Key{clipOf(id, 1), clipOf(id, 2), clipOf(id, 3), clipOf(id, 4)}
	fill()
}

// Two processes that let clips in at once do not let in one too many.
func TestOpenClipsAcrossProcesses(t *testing.T) {
	t.Parallel()
	a, out := opened(t), &outgoing{}
	stores := []*videostore.Store{videostore.New(a, out), videostore.New(a, out)}
	for _, s := range stores {
		s.SetLimits(videostore.Limits{Clips: 3})
	}
	id := finished(t, stores[0], out)
	var in atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() { in.Add(int64(len(allowed(t, stores[i%2], []engine.Key{clipOf(id, i)})))) })
	}
	wg.Wait()
	if in.Load() > 3 {
		t.Fatalf("%d clips are let in, want 3 at most", in.Load())
	}
	for i := 20; in.Load() < 3; i++ {
		in.Add(int64(len(allowed(t, stores[1], []engine.Key{clipOf(id, i)}))))
	}
	if more := allowed(t, stores[0], []engine.Key{clipOf(id, 50)}); len(more) > 0 {
		t.Error("one too many is let in")
	}
	if _, err := stores[0].Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	for row, err := range tablestore.New(a, videostore.QuotasTable).Query(t.Context(), tablestore.Query{PartitionKey: "!clips", Class: tablestore.RowRange}) {
		t.Errorf("the purge left %s, %v", row.RowKey, err)
	}
}

// The same for videos that are processed again.
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
