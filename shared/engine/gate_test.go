package engine_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// gated is a plan of two pairs and sound behind gates.
func gated(generation int, names ...string) enginetest.Plan {
	p := plan(2, true)
	p.Generation = generation
	for _, name := range names {
		step, _ := declared.Find(name)
		p.Promises = append(p.Promises, engine.Promise{Step: name, Items: 1, Gate: true, Round: step.Round, Queue: enginetest.Rest})
	}
	return p
}

// gateOf claims a gate of a generation as the worker with that message does.
func gateOf(t *testing.T, s *enginetest.Store, id engine.ID, generation int, step string) *enginetest.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: step}, "message of "+step, "w", time.Time{})
	if err != nil {
		t.Fatalf("claim %s: %v", step, err)
	}
	return c
}

func passes(t *testing.T, c *enginetest.Claim) {
	t.Helper()
	if err := errors.Join(c.Commit(t.Context(), enginetest.Commit{}), c.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func viewOf(t *testing.T, s *enginetest.Store, id engine.ID) enginetest.View {
	t.Helper()
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func wantSent(t *testing.T, out *outgoing, when string, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(out.take(), func(s string) bool { return s == "rest: list" })
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

var firstParts = []string{"bulk: add", "bulk: square", "first: add"}

// Nothing but the gates is promised, wanted or sought until all are done. Then the parts are
// promised once, however many callers see that.
func TestPartsWaitForEveryGate(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	planned(t, s, id, gated(1, enginetest.Vet, stepRated))
	wantSent(t, out, "the plan", "rest: rated", "rest: vet")
	if parts := viewOf(t, s, id).Parts(); len(parts) > 0 {
		t.Errorf("parts are there before the gates: %v", parts)
	}
	moderated, rated := gateOf(t, s, id, 1, enginetest.Vet), gateOf(t, s, id, 1, stepRated)
	passes(t, moderated)
	if err := moderated.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "one of two gates")
	passes(t, rated)
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			if err := s.FanIn(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	wantSent(t, out, "both gates", firstParts...)
	if err := rated.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "again")
	if parts := viewOf(t, s, id).Parts(); len(parts) != len(firstParts) {
		t.Errorf("behind the gates these parts are there: %v", parts)
	}
}

// A gate of a later round is not promised, wanted or sent again before those of earlier ones are
// done; then it is promised once.
func TestGatesRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	planned(t, s, id, gated(1, enginetest.Limit, enginetest.Vet)) // in any order
	wantSent(t, out, "the plan", "rest: vet")
	behind := engine.Key{ID: id, Generation: 1, Step: enginetest.Limit}
	asked := func() bool {
		since, asked := viewOf(t, s, id).Asked()[behind]
		return asked && !since.IsZero()
	}
	missing := func(when, want string) {
		t.Helper()
		if missing := viewOf(t, s, id).Missing(); len(missing) != 1 || missing[0].Step != want {
			t.Errorf("%s: missing %v", when, missing)
		}
	}
	missing("the plan", enginetest.Vet)
	vet := gateOf(t, s, id, 1, enginetest.Vet)
	passes(t, vet)
	missing("nothing followed", enginetest.Split)
	if asked() {
		t.Error("the second gate is asked for before the first has passed")
	}
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(func() {
			if err := s.FanIn(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if err := vet.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "the first gate has passed", "rest: limit")
	missing("behind the first gate", enginetest.Limit)
	if parts := viewOf(t, s, id).Parts(); len(parts) > 0 || !asked() {
		t.Errorf("between the gates: parts %v, the second is asked for: %t", parts, asked())
	}
	limit := gateOf(t, s, id, 1, enginetest.Limit)
	if err := limit.Fail(t.Context(), &engine.Failure{Code: enginetest.LargeNumber, Detail: "x"}); err != nil {
		t.Fatal(err)
	}
	out.take()
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "a retry", "rest: limit")
	limit = gateOf(t, s, id, 1, enginetest.Limit)
	passes(t, limit)
	if err := limit.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "both have passed", firstParts...)
}

// While an upload goes on a gate runs that is early, and one behind it, that is not, when the
// upload is complete.
func TestLaterGateWaitsForTheUpload(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	v := awaiting()
	v.Upload.Started, v.Generation = true, 1
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	p, first := gated(1, stepEarly, enginetest.Limit), gateOf(t, s, v.ID, 1, enginetest.Split)
	if err := errors.Join(first.Commit(t.Context(), enginetest.Commit{Plan: &p}), first.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "the plan", "rest: early")
	early := gateOf(t, s, v.ID, 1, stepEarly)
	passes(t, early)
	if err := early.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "the first round has passed")
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "the upload is complete", "rest: limit")
	passes(t, gateOf(t, s, v.ID, 1, enginetest.Limit))
	if err := s.FanIn(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "all have passed", firstParts...)
}

// All parts of a plan ended while the upload went on: its end promises the last step at once.
func TestNothingIsLeftAtTheEndOfAnUpload(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	v, p := awaiting(), plan(1, false)
	v.Upload.Started, v.Generation = true, 1
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	passes := func(step string, commit enginetest.Commit) {
		t.Helper()
		c := gateOf(t, s, v.ID, 1, step)
		if err := errors.Join(c.Commit(t.Context(), commit), c.SendOutbox(t.Context()), c.Follow(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	passes(enginetest.Split, enginetest.Commit{Plan: &p})
	rec, err := s.Get(t.Context(), v.ID)
	if err == nil {
		err = s.PromiseUntil(t.Context(), rec, p, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	passes(enginetest.Add, enginetest.Commit{})
	wantSent(t, out, "while it went on", "first: add")
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "the upload is complete", "rest: total")
}

// The web role dies when it has written that an upload is complete, before it promises what that
// was waited for with: the first step, delivered again, does it.
func TestEndOfAnUploadIsFollowedUp(t *testing.T) {
	t.Parallel()
	a, out := azuritetest.Account(t), &outgoing{}
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	s := newStore(a, out)
	dying := newStore(azuritetest.FaultyAccount(t, a, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "()") { // the query of FanIn
			return inject.ServerBusy
		}
		return inject.None
	}), out)
	v, p := awaiting(), plan(2, true)
	v.Upload.Started, v.Generation = true, 1
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	first := gateOf(t, s, v.ID, 1, enginetest.Split)
	if err := errors.Join(first.Commit(t.Context(), enginetest.Commit{Plan: &p}), first.SendOutbox(t.Context())); err != nil {
		t.Fatal(err)
	}
	out.take()
	if _, err := dying.Uploaded(t.Context(), v.ID, epoch, "etag"); err == nil {
		t.Fatal("the fault was not made")
	}
	if missing := viewOf(t, s, v.ID).Missing(); len(missing) != 1 || missing[0].Step != enginetest.Split {
		t.Errorf("missing %v", missing)
	}
	c, err := s.Claim(t.Context(), key(v.ID, enginetest.Split, 0), "again", "w", time.Time{})
	if !errors.Is(err, engine.ErrDone) {
		t.Fatalf("claim = %v", err)
	}
	for range 2 {
		if err := c.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantSent(t, out, "followed up", firstParts...)
}

// Messages keep the version of the newest release that began a generation, whichever sends
// them: an older worker would plan without the gates that it does not know (Q6).
func TestMessagesKeepTheirVersion(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	old := *s
	old.ItemVersion = 1
	out.broken = errors.New("no queue")
	v := awaiting()
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); !errors.Is(err, out.broken) {
		t.Fatal(err)
	}
	out.broken = nil
	versions := func(when string, do func() error, want int) {
		t.Helper()
		err, sent := do(), 0
		for _, item := range out.takeItems() {
			if step, _ := declared.Find(item.Kind); step.HasRows() {
				sent++
				if item.Version != want {
					t.Errorf("%s: %s has version %d, want %d", when, item.Kind, item.Version, want)
				}
			}
		}
		if err != nil || sent == 0 {
			t.Errorf("%s: %d messages, %v", when, sent, err)
		}
	}
	versions("flushed", func() error { return old.Flush(t.Context(), v.ID) }, enginetest.ItemVersion)
	versions("sent again", func() error {
		view := viewOf(t, &old, v.ID)
		return old.Resend(t.Context(), view.Record, view.Missing())
	}, enginetest.ItemVersion)
	versions("begun anew", func() error {
		_, err := old.Cancel(t.Context(), v.ID)
		if err == nil {
			_, err = old.Reprocess(t.Context(), v.ID)
		}
		return err
	}, enginetest.ItemVersion)
	other := awaiting()
	if _, err := old.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	versions("by the older release", func() error {
		_, err := old.Uploaded(t.Context(), other.ID, epoch, "etag")
		return err
	}, 1)
}

// A worker dies between the commit of a gate and what follows: the message comes again, or, when
// it is lost, is missing.
func TestGateFollowsUpAgain(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, gated(1, stepRated))
	passes(t, gateOf(t, s, id, 1, stepRated))
	out.take()
	if missing := viewOf(t, s, id).Missing(); len(missing) != 1 || missing[0].Step != enginetest.Split {
		t.Errorf("missing %v", missing)
	}
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: stepRated}, "message", "w", time.Time{})
	if !errors.Is(err, engine.ErrDone) {
		t.Fatalf("claim = %v", err)
	}
	if err := c.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "delivered again", firstParts...)
	if missing := viewOf(t, s, id).Missing(); len(missing) != 3 {
		t.Errorf("missing %v", missing)
	}
}

// What a gate rejects fails; a retry asks the gate again, and a cancelled sum is not taken up
// by a gate that passes late.
func TestGateRejects(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, gated(1, enginetest.Vet))
	if err := gateOf(t, s, id, 1, enginetest.Vet).Fail(t.Context(), &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}); err != nil {
		t.Fatal(err)
	}
	if v := viewOf(t, s, id).Subject; v.State != engine.Failed || v.Playable {
		t.Errorf("the sum is %s, playable: %t", v.State, v.Playable)
	}
	out.take()
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "a retry", "rest: vet")
	late := gateOf(t, s, id, 1, enginetest.Vet)
	if _, err := s.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out.take()
	passes(t, late)
	if err := late.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "cancelled")
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "retried behind the gate", "rest: split")
	c, err := s.Claim(t.Context(), key(id, enginetest.Split, 0), "again", "w", time.Time{})
	if !errors.Is(err, engine.ErrDone) {
		t.Fatalf("claim = %v", err)
	}
	if err := c.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSent(t, out, "followed up", firstParts...)
}

// A reprocessing that is rejected ends what plays if the gate says so. A gate that fails
// without a verdict never does.
func TestRejectedReprocessing(t *testing.T) {
	t.Parallel()
	failure := &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}
	for _, c := range []struct {
		gate    string
		verdict bool
		serving int
	}{{enginetest.Vet, true, 0}, {enginetest.Vet, false, 1}, {stepRated, true, 1}} {
		s, out := setup(t)
		id := uploaded(t, s)
		planned(t, s, id, plan(2, true))
		parts(t, s, id, plan(2, true))
		readyToPlay(t, s, id, 1)
		if _, err := s.Reprocess(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		again := gated(2, c.gate)
		first := gateOf(t, s, id, 2, enginetest.Split)
		err := first.Commit(t.Context(), enginetest.Commit{Plan: &again, Edit: func(v *enginetest.Sum) { v.State = engine.Processing }})
		if err != nil {
			t.Fatal(err)
		}
		out.take()
		gate := gateOf(t, s, id, 2, c.gate)
		if c.verdict {
			err = gate.Fail(t.Context(), failure)
		} else {
			err = s.FailStep(t.Context(), engine.Key{ID: id, Generation: 2, Step: c.gate}, failure)
		}
		if v := viewOf(t, s, id).Subject; err != nil || v.State != engine.Failed || v.Serving != c.serving || v.Playable != (c.serving > 0) {
			t.Errorf("%+v: state %s, serving %d, playable %t, %v", c, v.State, v.Serving, v.Playable, err)
		}
	}
}

// A gate that only a newer release knows is waited for, and asked for on its queue.
func TestUnknownGateIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	planned(t, s, id, gated(1, "newer"))
	wantSent(t, out, "the plan", "rest: newer")
	if missing := viewOf(t, s, id).Missing(); len(missing) != 1 || missing[0].Step != "newer" {
		t.Errorf("missing %v", missing)
	}
}
