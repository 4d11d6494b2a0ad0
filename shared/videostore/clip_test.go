package videostore_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestFootageFindsTheFrameThatIsShown(t *testing.T) {
	t.Parallel()
	ntsc := clips.Footage{Generation: 3, FPS: video.Rational{Num: 30000, Den: 1001}, Frames: 300} // 10.01 s
	for _, c := range []struct {
		start, length float64
		first, frames int // frames 0: outside
	}{
		{0, 1, 0, 30}, {0.033, 1, 0, 30}, {0.0334, 1, 1, 30}, {0.333667, 0.1, 10, 3},
		{0.367033, 0.1, 11, 3}, // frame 11 is at 0.3670333…: what is lost by writing it down is forgiven
		{1.001, 1.001, 30, 30}, {9.97, 0.04, 298, 1}, {9.01, 1, 270, 30}, {0, 10.01, 0, 300}, {0, 10.02, 0, 300},
		{
			0, 10.1, 0, 0,
		}, {
			9.5, 1, 0, 0,
		}, {
			10.01, 0.1, 0, 0,
		}, {
			10.5, 0.1, 0, 0,
		}, {
			-1, 2, 0, 0,
		}, {
			1, 0, 0, 0,
		}, {
			1e300, 1, 0, 0,
		}, {
			1, 1e300, 0, 0,
		},
	} {
		k, err := ntsc.Clip(c.start, c.length)
		if c.frames == 0 {
			if !errors.Is(err, clips.ErrOutside) {
				t.Errorf("%v s from %v: %v, want ErrOutside", c.length, c.start, err)
			}
			continue
		}
		if err != nil || k.Index != c.first || k.Length != c.frames {
			t.Errorf("%v s from %v: frames %d+%d (%v), want %d+%d", c.length, c.start, k.Index, k.Length, err, c.first, c.frames)
		}
		// The time that the clip then shows is of the same clip.
		again, err := ntsc.Clip(ntsc.FPS.Seconds(int64(k.Index)), ntsc.FPS.Seconds(int64(k.Length)))
		if err != nil || again != k {
			t.Errorf("%s asked for by its own times is %s (%v)", k.Name(), again.Name(), err)
		}
		if back, err := clips.ParseID("", k.Name()); err != nil || back != k {
			t.Errorf("ParseClipID(%q) = %v, %v", k.Name(), back, err)
		}
	}
	for _, bad := range []string{"", "g1", "g1-0", "g01-0-1", "g1-0-1 ", "g1-0-1-", "g-1-0-1", "g1--1-1", "g0-0-1", "g1-0-0", "g1-+0-1", "g1-0000000001-1", "g1-1-9999999", "x"} {
		if k, err := clips.ParseID("", bad); !errors.Is(err, engine.ErrNoRun) {
			t.Errorf("ParseID(%q) = %v, %v; want ErrNoRun", bad, k, err)
		}
	}
}

// The same part asked for by many at once is one clip and one work item.
func TestClipIsPromisedOnce(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	before, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := clips.FootageOf(t.Context(), s, id)
	if err != nil || f.Frames != 240 || f.Seconds() != 8 || f.Generation != 1 {
		t.Fatalf("Footage = %+v, %v", f, err)
	}
	k, err := f.Clip(2.5, 3)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			clip, err := clips.Request(t.Context(), s, k, video.LocalOwner)
			if err != nil || clip.Key != k || clip.State != engine.RunQueued || clip.CreatedAt.IsZero() {
				t.Errorf("RequestClip = %+v, %v", clip, err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]string{"encode-high: clip"}, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	after, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Subject, after.Subject); diff != "" {
		t.Errorf("asking for a clip changed the video (-before +after):\n%s", diff)
	}
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 1 || !marks[0].Indexed.Equal(after.Subject.UpdatedAt) {
		t.Errorf("in flight: %+v, %v; want one mark that says that the index follows", marks, err)
	}
	view, err := s.View(t.Context(), id)
	if err != nil || slices.ContainsFunc(view.Runs, func(s engine.Run) bool { return s.Key.Step == workflow.StepClip }) {
		t.Errorf("View: %v, %v; clips must not be in it", view.Runs, err)
	}
}

func TestClipPromiseSurvivesBrokenQueue(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 7, Length: 9}
	out.broken = errors.New("queue is away")
	if _, err := clips.Request(t.Context(), s, k, video.LocalOwner); !errors.Is(err, out.broken) {
		t.Fatalf("RequestClip = %v, want the sender's error", err)
	}
	out.broken = nil
	if clip, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil || clip.State != engine.RunQueued {
		t.Fatalf("asked again: %+v, %v", clip, err)
	}
	if err := s.Flush(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"encode-high: clip"}, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A clip is claimed, fenced and committed like any step, while its video is ready.
func TestClipIsAStep(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 7, Length: 9}
	if _, err := s.Claim(t.Context(), k, "m", "w", time.Time{}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("claim of a clip that was not asked for: %v, want ErrGone", err)
	}
	if _, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil {
		t.Fatal(err)
	}
	stale, err := s.Claim(t.Context(), k, "m", "worker-1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := s.Claim(t.Context(), k, "m", "worker-2", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stale.Commit(t.Context(), videostore.Commit{Output: engine.File{Blob: "stale"}}); !errors.Is(err, engine.ErrSuperseded) {
		t.Errorf("stale commit: %v, want ErrSuperseded", err)
	}
	if err := fresh.Commit(t.Context(), videostore.Commit{Output: engine.File{Blob: "fresh"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), k, "m", "w", time.Time{}); !errors.Is(err, engine.ErrDone) {
		t.Errorf("claim of a clip that is done: %v, want ErrDone", err)
	}
	if clip, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil || clip.State != engine.RunDone || string(clip.Output) == "" {
		t.Errorf("asked again: %+v, %v; want the clip that is there", clip, err)
	}
	if n := len(out.take()); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

// A clip that fails leaves the video alone, and anyone who asks again gets it tried
// again.
func TestClipFailsAlone(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	failure := &engine.Failure{Code: engine.ProcessingFailed, Detail: "no"}
	for name, fail := range map[string]func(k engine.Key) error{
		"at once": func(k engine.Key) error {
			c, err := s.Claim(t.Context(), k, "m", "w", time.Time{})
			if err != nil {
				return err
			}
			return c.Fail(t.Context(), failure)
		},
		"attempts used up": func(k engine.Key) error { return s.FailStep(t.Context(), k, failure) },
	} {
		k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: len(name), Length: 9}
		asked, err := clips.Request(t.Context(), s, k, video.LocalOwner)
		if err != nil {
			t.Fatal(err)
		}
		if err := fail(k); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		clip, err := s.ReadRun(t.Context(), k)
		if err != nil || clip.State != engine.RunFailed || clip.Error == nil || clip.Error.Code != failure.Code {
			t.Errorf("%s: %+v, %v; want the failure", name, clip, err)
		}
		rec, err := s.Get(t.Context(), id)
		if err != nil || rec.Subject.State != engine.Ready || rec.Subject.Error != nil {
			t.Errorf("%s: the video is %s with %v", name, rec.Subject.State, rec.Subject.Error)
		}
		if diff := cmp.Diff([]string{"encode-high: clip"}, out.take()); diff != "" {
			t.Errorf("%s: sent (-want +got):\n%s", name, diff)
		}
		again, err := clips.Request(t.Context(), s, k, video.LocalOwner)
		if err != nil || again.State != engine.RunQueued || again.Error != nil || !again.CreatedAt.Equal(asked.CreatedAt) {
			t.Errorf("%s: asked again: %+v, %v", name, again, err)
		}
		if n := len(out.take()); n != 1 {
			t.Errorf("%s: asked again: %d messages, want 1", name, n)
		}
	}
}

func TestClipOfADeletedVideoCannotComeBack(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 7, Length: 9}
	if _, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), k, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	other := k
	other.Index = 8
	for _, asked := range []engine.Key{k, other} {
		if _, err := clips.Request(t.Context(), s, asked, video.LocalOwner); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("asked under a tombstone: %v, want ErrNotFound", err)
		}
	}
	if _, err := c.Active(t.Context()); !errors.Is(err, engine.ErrGone) {
		t.Errorf("Active under a tombstone: %v, want ErrGone", err)
	}
	if claimed, err := s.Erase(t.Context(), id, false); err != nil || !claimed {
		t.Fatalf("Erase = %t, %v; a clip was claimed", claimed, err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: engine.File{Blob: "late"}}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("late commit: %v, want ErrGone", err)
	}
	if err := s.FailStep(t.Context(), k, &engine.Failure{}); err != nil {
		t.Errorf("late failure: %v", err)
	}
	if _, err := s.Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if _, err := clips.FootageOf(t.Context(), s, id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Footage: %v, want ErrNotFound", err)
	}
	if _, err := s.ReadRun(t.Context(), k); !errors.Is(err, engine.ErrNoRun) {
		t.Errorf("Clip: %v, want ErrNoRun", err)
	}
}

// A replaced generation stays while a clip is still to be cut from it, and no
// new ones are.
func TestClipKeepsItsGeneration(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 7, Length: 9}
	if _, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reprocess(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if f, err := clips.FootageOf(t.Context(), s, id); err != nil || f.Generation != 1 {
		t.Errorf("Footage during the reprocessing: %+v, %v", f, err)
	}
	other := k
	other.Length = 10
	if _, err := clips.Request(t.Context(), s, other, video.LocalOwner); err != nil {
		t.Errorf("asked during the reprocessing: %v", err)
	}
	p := plan(2, false)
	p.Generation = 2
	probe, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: 2, Step: workflow.StepProbe}, "m", "w", time.Time{})
	if err == nil {
		err = probe.Commit(t.Context(), videostore.Commit{Plan: &p})
	}
	if err != nil {
		t.Fatal(err)
	}
	finish(t, s, id, 2)
	other.Length = 11
	if _, err := clips.Request(t.Context(), s, other, video.LocalOwner); !errors.Is(err, engine.ErrState) {
		t.Errorf("asked of a generation that was replaced: %v, want ErrState", err)
	}
	view, err := s.ViewWithRequests(t.Context(), id, false)
	if err != nil || !view.Keeps(1) || len(view.OpenOptional()) != 2 {
		t.Errorf("keeps generation 1: %t, open clips %v, %v", view.Keeps(1), view.OpenOptional(), err)
	}
	c, err := s.Claim(t.Context(), k, "m", "w", time.Time{})
	if err != nil {
		t.Fatalf("claim of a clip of the replaced generation: %v", err)
	}
	if err := c.Commit(t.Context(), videostore.Commit{Output: engine.File{Blob: "b"}}); err != nil {
		t.Fatal(err)
	}
	other.Length = 10
	if err := s.FailStep(t.Context(), other, &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	for all, want := range map[bool]int{true: 2, false: 0} {
		view, err = s.ViewWithRequests(t.Context(), id, all)
		made := slices.DeleteFunc(view.Runs, func(s engine.Run) bool { return s.Key.Step != workflow.StepClip })
		if err != nil || view.Keeps(1) || len(made) != want {
			t.Errorf("keeps generation 1: %t, %d clips, want %d (%v)", view.Keeps(1), len(made), want, err)
		}
	}
}

func TestClipsArePaged(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := finished(t, s, out)
	var want []string
	for first := range 5 {
		k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 30 * first, Length: 30}
		want = append(want, k.Name())
		if _, err := clips.Request(t.Context(), s, k, video.LocalOwner); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	token := ""
	for pages := 0; pages == 0 || token != ""; pages++ {
		var page []engine.Run
		var err error
		if page, token, err = s.Requests(t.Context(), id, workflow.StepClip, 2, token, nil); err != nil || len(page) > 2 {
			t.Fatalf("page %d: %d clips, %v", pages, len(page), err)
		}
		for _, c := range page {
			got = append(got, c.Key.Name())
			if time.Since(c.CreatedAt) > time.Minute {
				t.Errorf("%s was created at %v", c.Key, c.CreatedAt)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clips (-want +got):\n%s", diff)
	}
	if _, _, err := s.Requests(t.Context(), id, workflow.StepClip, 2, "AAAA", nil); !errors.Is(err, tablestore.ErrToken) {
		t.Errorf("forged token: %v, want ErrToken", err)
	}
}

// erasedMeanwhile is meanwhile for a video that is deleted and erased.
func erasedMeanwhile(t *testing.T, begin func(*videostore.Store, *outgoing) engine.ID) (late, s *videostore.Store, id engine.ID, erased *atomic.Bool) {
	t.Helper()
	return meanwhile(t, begin, func(s *videostore.Store, id engine.ID) error {
		_, err1 := s.Delete(t.Context(), id, "")
		_, err2 := s.Erase(t.Context(), id, true)
		return errors.Join(err1, err2)
	})
}

// meanwhile returns a store whose first write to table videos waits until something was
// done to the video that begin makes, another store for looking, and whether that has
// happened.
func meanwhile(t *testing.T, begin func(*videostore.Store, *outgoing) engine.ID, do func(*videostore.Store, engine.ID) error) (late, s *videostore.Store, id engine.ID, done *atomic.Bool) {
	t.Helper()
	prefix := azuritetest.Prefix()
	var once sync.Once
	var happens func()
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		insert := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, workflow.VideosTable)
		if insert || strings.HasSuffix(r.URL.Path, "$batch") {
			once.Do(happens)
		}
		return inject.None
	}}
	account := func(transport policy.Transporter) *azstore.Account {
		return azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = prefix, transport })
	}
	a := account(nil)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: videostore.Tables}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	s = videostore.New(a, out)
	id = begin(s, out)
	done = &atomic.Bool{}
	happens = func() {
		if err := do(s, id); err != nil {
			t.Error(err)
		}
		done.Store(true)
	}
	return videostore.New(account(faults), out), s, id, done
}

// The video is deleted and erased after the request has looked at it and before
// the request writes.
func TestClipAskedForDuringADelete(t *testing.T) {
	t.Parallel()
	late, s, id, erased := erasedMeanwhile(t, func(s *videostore.Store, out *outgoing) engine.ID { return finished(t, s, out) })
	k := engine.Key{ID: id, Generation: 1, Step: workflow.StepClip, Index: 7, Length: 9}
	_, err := clips.Request(t.Context(), late, k, video.LocalOwner)
	if !errors.Is(err, engine.ErrNotFound) || !erased.Load() {
		t.Errorf("RequestClip = %v, want ErrNotFound; erased in between: %t", err, erased.Load())
	}
	if _, err := s.ReadRun(t.Context(), k); !errors.Is(err, engine.ErrNoRun) {
		t.Errorf("Clip: %v; nothing may be left of an erased video", err)
	}
}
