package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// spends is a meter that says that one blob was read and one second computed.
func spends() engine.Usage {
	return engine.Usage{Requests: map[azstore.RequestKind]int{"blob.read": 1}, Received: 10, Sent: 20, CPU: 1}
}

// claimed claims a step whose attempts are counted.
func claimed(t *testing.T, s *enginetest.Store, k engine.Key, worker string) *enginetest.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), k, "message", worker, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c.Usage = spends
	return c
}

// row reads a step as a view does.
func row(t *testing.T, s *enginetest.Store, k engine.Key) engine.Run {
	t.Helper()
	view, err := s.View(t.Context(), k.ID)
	if err != nil {
		t.Fatal(err)
	}
	step, found := view.RunOf(k)
	if !found {
		t.Fatalf("%s has no row", k)
	}
	return step
}

// told is attempts as lines: number, worker, outcome.
func told(attempts []engine.Attempt) (lines []string) {
	for _, a := range attempts {
		lines = append(lines, fmt.Sprintf("%d %s %s", a.Number, a.Worker, a.Outcome))
	}
	return lines
}

func TestAStepRemembersItsAttempts(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, plan(1, false))
	k := key(id, enginetest.Add, 0)

	asked := time.Now().UTC().Add(-5 * time.Second).Truncate(time.Millisecond)
	if _, err := s.Claim(t.Context(), k, "message", "killed", asked); err != nil {
		t.Fatal(err)
	}
	if err := claimed(t, s, k, "unlucky").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("the disk is full")); err != nil {
		t.Fatal(err)
	}
	if err := claimed(t, s, k, "drained").GiveBack(t.Context(), engine.OutcomeReleased, nil); err != nil {
		t.Fatal(err)
	}
	last := claimed(t, s, k, "lucky")
	want := []string{"1 killed lost", "2 unlucky retry", "3 drained released", "4 lucky running"}
	if diff := cmp.Diff(want, told(row(t, s, k).AllAttempts())); diff != "" {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	if err := last.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}}); err != nil {
		t.Fatal(err)
	}

	step := row(t, s, k)
	tries := step.AllAttempts()
	want[3] = "4 lucky done"
	if diff := cmp.Diff(want, told(tries)); diff != "" {
		t.Fatalf("when it is done (-want +got):\n%s", diff)
	}
	if !tries[0].Queued.Equal(asked) {
		t.Errorf("the first attempt had waited since %v, want %v: when the work was asked for", tries[0].Queued, asked)
	}
	if tries[1].Error != "the disk is full" || tries[2].Error != "" {
		t.Errorf("errors %q and %q", tries[1].Error, tries[2].Error)
	}
	for i, a := range tries {
		if a.Started.IsZero() || a.Ended.Before(a.Started) || i > 0 && a.Started.Before(tries[i-1].Ended) {
			t.Errorf("attempt %d from %v to %v overlaps with another, or has no ends", a.Number, a.Started, a.Ended)
		}
	}
	spent, notCounted := step.TotalUsage()
	wantSpent := engine.Usage{Requests: map[azstore.RequestKind]int{"blob.read": 3, azstore.TableWrite: 3}, Received: 30, Sent: 60, CPU: 3}
	if diff := cmp.Diff(wantSpent, spent); diff != "" || notCounted != 1 {
		t.Errorf("%d attempts are not counted, want the lost one; spent (-want +got):\n%s", notCounted, diff)
	}
}

// However often a step is tried, its row stays small, and says how many attempts it has forgotten.
func TestAHistoryIsBounded(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	s := newStore(a, &outgoing{})
	id := uploaded(t, s)
	planned(t, s, id, plan(1, false))
	k := key(id, enginetest.Add, 0)
	const tries = 30
	for range tries {
		if err := claimed(t, s, k, "worker-1").GiveBack(t.Context(), engine.OutcomeRetry, errors.New(strings.Repeat("a very long story ", 1000))); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := tablestore.New(a, declared.Table).Get(t.Context(), string(id), k.RowKey())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(stored.String("History")); n == 0 || n > 6000 {
		t.Errorf("the history has %d bytes, want a few thousand at most", n)
	}
	step := row(t, s, k)
	kept := step.AllAttempts()
	if len(kept) == 0 || kept[len(kept)-1].Number != tries || step.Attempts != tries {
		t.Errorf("%d attempts are kept of %d: %v", len(kept), step.Attempts, told(kept))
	}
	if spent, notCounted := step.TotalUsage(); notCounted != tries-len(kept) || spent.Requests["blob.read"] != len(kept) {
		t.Errorf("spent %+v, %d attempts not counted; want what the %d that are kept have spent", spent, notCounted, len(kept))
	}
}

// A history that cannot be read is no error, and the next attempt begins another.
func TestABrokenHistoryFailsNoStep(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]string{"of another shape": `{"a":"a text"}`, "broken": `{`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := azuritetest.Account(t)
			if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
				t.Fatal(err)
			}
			s, table := newStore(a, &outgoing{}), tablestore.New(a, declared.Table)
			id := uploaded(t, s)
			planned(t, s, id, plan(1, false))
			k := key(id, enginetest.Add, 0)
			if err := claimed(t, s, k, "failing").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("no luck")); err != nil {
				t.Fatal(err)
			}
			stored, err := table.Get(t.Context(), string(id), k.RowKey())
			if err != nil {
				t.Fatal(err)
			}
			stored.Props["History"] = history
			if _, err := table.Update(t.Context(), stored, stored.ETag); err != nil {
				t.Fatal(err)
			}
			if err := claimed(t, s, k, "lucky").Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}}); err != nil {
				t.Fatal(err)
			}
			step := row(t, s, k)
			if diff := cmp.Diff([]string{"2 lucky done"}, told(step.AllAttempts())); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
			if _, notCounted := step.TotalUsage(); notCounted != 1 {
				t.Errorf("%d attempts are not counted, want 1", notCounted)
			}
		})
	}
}

// What ends attempts from outside: the last failure, and a retry by a user.
func TestAttemptsThatOthersEnd(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, plan(2, false))
	tried, killed := key(id, enginetest.Add, 0), key(id, enginetest.Add, 1)
	claimed(t, s, killed, "killed")
	if err := claimed(t, s, tried, "failing").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("no luck")); err != nil {
		t.Fatal(err)
	}
	if err := s.FailStep(t.Context(), tried, &engine.Failure{Code: engine.ProcessingFailed, Detail: "given up"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 failing failed"}, told(row(t, s, tried).AllAttempts())); diff != "" {
		t.Errorf("given up (-want +got):\n%s", diff)
	}
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	step := row(t, s, killed)
	if diff := cmp.Diff([]string{"1 killed lost"}, told(step.AllAttempts())); diff != "" {
		t.Errorf("reopened (-want +got):\n%s", diff)
	}
	if step.State != engine.RunQueued || step.QueuedAt.Before(step.AllAttempts()[0].Started) {
		t.Errorf("it is %s, since %v", step.State, step.QueuedAt)
	}
	if err := claimed(t, s, tried, "lucky").Fail(t.Context(), &engine.Failure{Code: enginetest.NegativeNumber, Detail: "it cannot be read"}); err != nil {
		t.Fatal(err)
	}
	tries := row(t, s, tried).AllAttempts()
	if diff := cmp.Diff([]string{"1 failing retry", "2 lucky failed"}, told(tries)); diff != "" || tries[1].Error != "negative_number: it cannot be read" || tries[1].Usage == nil {
		t.Errorf("failed for good with %+v (-want +got):\n%s", tries, diff)
	}
}
