package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// promising is a plan that stores what is declared today.
func promising() enginetest.Plan {
	p := plan(1, true)
	p.Promises = slices.DeleteFunc(declared.PromisesFor(p.Counts()), func(p engine.Promise) bool { return p.Gate })
	return p
}

// parts ends every part of a plan as its step would, but those that skip names.
func parts(t *testing.T, s *enginetest.Store, id engine.ID, p enginetest.Plan, skip ...string) {
	t.Helper()
	for _, promise := range declared.StepsIn(p.Plan, engine.Part) {
		for i := range promise.Items {
			k := engine.Key{ID: id, Generation: p.Generation, Step: promise.Step.Name, Index: i}
			if slices.Contains(skip, k.Step) {
				continue
			}
			c, err := s.Claim(t.Context(), k, k.ItemID(), "w", time.Time{})
			if err == nil {
				err = c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}})
			}
			if err != nil {
				t.Fatalf("%s: %v", k, err)
			}
		}
	}
}

func becomesPlayable(t *testing.T, s *enginetest.Store, id engine.ID) {
	t.Helper()
	if _, err := s.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) { v.Playable = true; return nil, nil }); err != nil {
		t.Fatal(err)
	}
}

// readyToPlay makes a sum ready as the last step and its runner do.
func readyToPlay(t *testing.T, s *enginetest.Store, id engine.ID, generation int) {
	t.Helper()
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: generation, Step: declared.Only(engine.Last).Name}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	commit := enginetest.Commit{Output: enginetest.Made{Value: 120}, Edit: func(v *enginetest.Sum) {
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
	for _, s := range declared.Steps {
		if s.IsOptional() && s.Stage != engine.OnRequest {
			steps = append(steps, s)
		}
	}
	return steps
}

// Every step that fails alone: a ready sum stays ready whatever becomes of it,
// and it can be retried until it is done.
func TestStepsThatFailAlone(t *testing.T) {
	t.Parallel()
	failure := &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}
	for _, step := range lone() {
		t.Run(step.Name, func(t *testing.T) {
			t.Parallel()
			s, out := setup(t)
			id, p := uploaded(t, s), promising()
			planned(t, s, id, p)
			k := engine.Key{ID: id, Generation: 1, Step: step.Name}
			claim := func() *enginetest.Claim {
				t.Helper()
				c, err := s.Claim(t.Context(), k, "m-"+step.Name, "w", time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			ready := func() enginetest.View {
				t.Helper()
				view, err := s.View(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if v := view.Subject; v.State != engine.Ready || v.Error != nil {
					t.Fatalf("the sum is %s with %v, want ready", v.State, v.Error)
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
				if open := ready().OpenOptional(); len(open) == 0 {
					t.Error("what is promised is not open")
				}
				if err := s.FailStep(t.Context(), k, failure); err != nil { // poison, never claimed
					t.Fatal(err)
				}
			}
			for _, i := range ready().OpenOptional() {
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
			commit := enginetest.Commit{}
			if step.Count == enginetest.PerPair { // which leaves nothing with the sum
				if err := c.Commit(t.Context(), commit); err != nil {
					t.Fatal(err)
				}
				return
			}
			commit = enginetest.Commit{Facts: map[string]int{"x": 1}, Files: []engine.File{{
				Name: "a.txt", Blob: k.BlobPrefix(c.Run.Attempt) + "a.txt",
			}}}
			if err := c.Commit(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
			view := ready()
			made, found := view.Subject.MadeBy(step.Name, 1)
			if !found || string(made.Facts) != `{"x":1}` || len(made.Files) != 1 {
				t.Errorf("left with the sum: %+v", made)
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

// A step after ready may run for each pair. The sum is ready without it, and a retry sends
// again the runs that failed.
func TestStepForEachPairAfterReady(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id, p := uploaded(t, s), plan(3, false)
	p.Promises = append(p.Promises, engine.Promise{Step: stepSpotted, Items: 3, Windowed: true, After: true, Optional: true, Queue: enginetest.Rest})
	planned(t, s, id, p)
	parts(t, s, id, p)
	if won, err := fanIn(t, s, id); err != nil || !won {
		t.Fatalf("the last step waits: %t, %v", won, err)
	}
	out.take()
	readyToPlay(t, s, id, 1)
	spotted := func(items []azq.Item) (n int) {
		for _, i := range items {
			if i.Kind == stepSpotted {
				n++
			}
		}
		return n
	}
	if n := spotted(out.takeItems()); n != 3 {
		t.Errorf("%d of 3 runs are promised", n)
	}
	if err := s.FailStep(t.Context(), key(id, stepSpotted, 1), &engine.Failure{Code: engine.ProcessingFailed}); err != nil {
		t.Fatal(err)
	}
	if open := viewOf(t, s, id).OpenOptional(); len(open) != 2 || viewOf(t, s, id).Subject.State != engine.Ready {
		t.Errorf("open are %v", open)
	}
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n := spotted(out.takeItems()); n != 1 {
		t.Errorf("a retry sends %d runs", n)
	}
}

// What plays keeps its steps while a new generation is made, and loses them with it.
func TestStepsThatFailAloneWhileASumIsReprocessed(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id, p := uploaded(t, s), promising()
	planned(t, s, id, p)
	parts(t, s, id, p)
	if _, err := fanIn(t, s, id); err != nil {
		t.Fatal(err)
	}
	readyToPlay(t, s, id, 1)
	if _, err := s.Reprocess(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, step := range declared.StepsIn(p.Plan, engine.AfterReady) {
		k := engine.Key{ID: id, Generation: 1, Step: step.Step.Name}
		c, err := s.Claim(t.Context(), k, "m", "w", time.Time{})
		if err != nil {
			t.Errorf("%s while another generation is made: %v", k, err)
			continue
		}
		if err := c.GiveBack(t.Context(), engine.OutcomeRetry, nil); err != nil {
			t.Fatal(err)
		}
	}
	again := promising()
	again.Generation = 2
	c, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: 2, Step: declared.Only(engine.First).Name}, "m", "w", time.Time{})
	if err == nil {
		err = c.Commit(t.Context(), enginetest.Commit{Plan: &again, Edit: func(v *enginetest.Sum) { v.State = engine.Processing }})
	}
	if err != nil {
		t.Fatal(err)
	}
	parts(t, s, id, again)
	readyToPlay(t, s, id, 2)
	out.take()
	for _, step := range lone() {
		if _, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: step.Name}, "m", "w", time.Time{}); !errors.Is(err, engine.ErrGone) && !errors.Is(err, engine.ErrDone) {
			t.Errorf("%s of the generation that was replaced: %v, want ErrGone", step.Name, err)
		}
	}
	if _, err := s.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	for _, step := range declared.StepsIn(again.Plan, engine.AfterReady) {
		if _, err := s.Claim(t.Context(), engine.Key{ID: id, Generation: 2, Step: step.Step.Name}, "m", "w", time.Time{}); !errors.Is(err, engine.ErrGone) {
			t.Errorf("%s of a deleted sum: %v, want ErrGone", step.Step.Name, err)
		}
	}
}

// A plan counts what it promised: an old one never waits for a new step, and a
// worker without a step waits for what a newer one promised (Q6).
func TestPlansCountWhatTheyPromised(t *testing.T) {
	t.Parallel()
	old := plan(1, true)
	newer := promising()
	newer.Promises = append(newer.Promises, engine.Promise{Step: "unheard-of", Items: 2, Queue: "rest"})
	for name, c := range map[string]struct {
		plan  enginetest.Plan
		waits []string
	}{
		"without a step of today":        {old, nil},
		"with a step of another release": {newer, []string{"unheard-of", "unheard-of"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := setup(t)
			id := uploaded(t, s)
			planned(t, s, id, c.plan)
			parts(t, s, id, c.plan, "unheard-of")
			view, err := s.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var waits []string
			for _, i := range view.Missing() {
				if i.Step != declared.Only(engine.Last).Name {
					waits = append(waits, i.Step)
				}
				if i.Step == "unheard-of" && (!strings.HasPrefix(i.Queue, "rest")) {
					t.Errorf("asked for as %+v", i)
				}
			}
			if !slices.Equal(waits, c.waits) {
				t.Errorf("waits for %v, want %v", waits, c.waits)
			}
			if won, err := fanIn(t, s, id); err != nil || won != (c.waits == nil) {
				t.Errorf("FanIn = %t, %v", won, err)
			}
		})
	}
}

// The release that made a plan declared a step of today's AfterReady as a part. The last
// step waits for it, whatever becomes of it, and it is not asked for again after ready (Q6).
func TestPlanOfAReleaseThatDeclaredTheStepElsewhere(t *testing.T) {
	t.Parallel()
	failure := &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}
	for name, end := range map[string]func(*testing.T, *enginetest.Store, engine.Key) error{
		"done": func(t *testing.T, s *enginetest.Store, k engine.Key) error {
			c := claimOf(t, s, k)
			return errors.Join(c.Commit(t.Context(), enginetest.Commit{}), c.Follow(t.Context()))
		},
		"failed": func(t *testing.T, s *enginetest.Store, k engine.Key) error {
			c := claimOf(t, s, k)
			return errors.Join(c.Fail(t.Context(), failure), c.Follow(t.Context()))
		},
		"poison": func(t *testing.T, s *enginetest.Store, k engine.Key) error {
			return s.FailStep(t.Context(), k, failure)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, out := setup(t)
			id, p := uploaded(t, s), promising()
			moved := slices.IndexFunc(p.Promises, func(p engine.Promise) bool { return p.Step == stepMoved })
			p.Promises[moved].After = false
			planned(t, s, id, p)
			if !asks(out.takeItems(), stepMoved) {
				t.Fatal("the step is not promised with the parts")
			}
			parts(t, s, id, p, stepMoved)
			view, err := s.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			k := key(id, stepMoved, 0)
			if _, asked := view.Asked()[k]; !asked {
				t.Error("the timeline says that the step was not asked for")
			}
			if err := end(t, s, k); err != nil {
				t.Fatal(err)
			}
			if !asks(out.takeItems(), declared.Only(engine.Last).Name) {
				t.Fatal("the last step is not promised after the end of the step")
			}
			readyToPlay(t, s, id, 1)
			if asks(out.takeItems(), stepMoved) {
				t.Error("the step is promised a second time, after ready")
			}
		})
	}
}

// A run fails whose plan cannot be read, or its message would come back for ever.
func TestRunWithAnUnreadablePlanFails(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	s := newStore(a, &outgoing{})
	id := uploaded(t, s)
	broken := tablestore.Entity{PartitionKey: string(id), RowKey: "PLAN:00001", Props: map[string]any{"Doc": "{"}}
	if _, err := tablestore.New(a, declared.Table).Insert(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	k := engine.Key{ID: id, Generation: 1, Step: enginetest.Average, Length: 1}
	asked := func(enginetest.Sum, *engine.Run) (bool, error) { return true, nil }
	if _, err := s.Request(t.Context(), k, asked); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Claim(t.Context(), k, "m", "w", time.Time{}); c != nil || !errors.Is(err, tablestore.ErrUnreadable) {
		t.Fatalf("claim = %v, %v", c, err)
	}
	if err := s.FailStep(t.Context(), k, &engine.Failure{Code: engine.ProcessingFailed, Detail: "x"}); err != nil {
		t.Fatal(err)
	}
	if run, err := s.ReadRun(t.Context(), k); err != nil || run.State != engine.RunFailed {
		t.Errorf("%+v, %v; want the failure", run, err)
	}
}
