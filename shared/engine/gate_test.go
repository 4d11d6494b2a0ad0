package engine_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// gated is a plan of two pairs and sound behind gates.
func gated(generation int, names ...string) enginetest.Plan {
	p := plan(2, true)
	p.Generation = generation
	for _, name := range names {
		p.Promises = append(p.Promises, engine.Promise{Step: name, Items: 1, Gate: true, Queue: enginetest.Rest})
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
		view := viewOf(t, s, id)
		callers.Go(func() {
			if won, err := s.FanIn(t.Context(), view); err != nil || won {
				t.Errorf("FanIn = %t, %v", won, err)
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

// A worker dies between the commit of a gate and what follows: the message comes again, or, when
// it is lost, is missing.
func TestGateFollowsUpAgain(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, gated(1, stepRated))
	passes(t, gateOf(t, s, id, 1, stepRated))
	out.take()
	if missing := viewOf(t, s, id).Missing(); len(missing) != 1 || missing[0].Step != stepRated {
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
	wantSent(t, out, "retried behind the gate", "rest: vet")
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
