package engine_test

import (
	"errors"
	"fmt"
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
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

func TestPromiseSurvivesBrokenQueue(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	v := awaiting()
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	out.broken = errors.New("queue is away")
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); !errors.Is(err, out.broken) {
		t.Fatalf("Uploaded = %v, want the sender's error", err)
	}
	view, err := s.View(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if view.Subject.State != engine.Uploaded || !view.Unsent {
		t.Fatalf("state %s, promised %t: state and promise must be written together", view.Subject.State, view.Unsent)
	}
	out.broken = nil
	for range 2 { // the second finds nothing left
		if err := s.Flush(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"rest: split", "rest: list"}, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	for writes := 0; diesAfter(t, writes); writes++ {
	}
}

// diesAfter ends an upload in a process that dies after so many writes, and looks: there is a
// promise exactly if there is the state. It reports whether the process died.
func diesAfter(t *testing.T, writes int) bool {
	t.Helper()
	prefix, die := azuritetest.Prefix(), inject.DiesAt(writes, inject.Reset)
	var dead atomic.Bool
	open := func(transport policy.Transporter) *enginetest.Store {
		a := azuritetest.AccountWith(t, func(c *azstore.Config) {
			c.Prefix, c.Transport, c.Retry = prefix, transport, azstore.Retry{Strategy: azstore.NoRetry}
		})
		if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
			t.Fatal(err)
		}
		return newStore(a, &outgoing{broken: errors.New("queue is away")})
	}
	living, v := open(nil), awaiting()
	if _, err := living.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	dying := open(&inject.Transport{Choose: func(r *http.Request) inject.Fault {
		row := r.Method != http.MethodGet && strings.Contains(r.URL.Path, declared.Table)
		if !row && !strings.HasSuffix(r.URL.Path, "$batch") {
			return inject.None
		}
		fault := die(r)
		dead.Store(dead.Load() || fault != inject.None)
		return fault
	}})
	if _, err := dying.Uploaded(t.Context(), v.ID, epoch, "etag"); err == nil {
		t.Fatal("uploaded, and the queue is away")
	}
	view, err := living.View(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if uploaded := view.Subject.State == engine.Uploaded; uploaded != view.Unsent {
		t.Errorf("after %d writes state %s, promised %t: state and promise must be written together",
			writes, view.Subject.State, view.Unsent)
	}
	return dead.Load()
}

// A commit writes its promises with its row: a worker that dies then leaves both.
func TestCommitsPromiseWithTheirRow(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	p := plan(2, false)
	first := claimOf(t, s, key(id, enginetest.Split, 0))
	if err := first.Commit(t.Context(), enginetest.Commit{Plan: &p}); err != nil {
		t.Fatal(err)
	}
	if view, err := s.View(t.Context(), id); err != nil || !view.Unsent {
		t.Errorf("the promise was not written with the row: %v", err)
	}
	if sent := out.take(); len(sent) > 0 {
		t.Errorf("sent before the commit was followed up: %v", sent)
	}
	if err := s.Flush(t.Context(), id); err != nil { // by the next delivery
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first: add", "bulk: add", "rest: list"}, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestClaimIsAFence(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, plan(2, false))
	k := key(id, enginetest.Add, 0)

	stale, err := s.Claim(t.Context(), k, "message-7", "worker-1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), k, "message-8", "worker-2", time.Time{}); !errors.Is(err, engine.ErrDuplicate) {
		t.Errorf("another message claims a running step: %v, want ErrDuplicate", err)
	}
	fresh, err := s.Claim(t.Context(), k, "message-7", "worker-2", time.Time{})
	if err != nil {
		t.Fatalf("the same message, delivered again, must take over: %v", err)
	}
	if err := stale.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 1}}); !errors.Is(err, engine.ErrSuperseded) {
		t.Errorf("stale commit: %v, want ErrSuperseded", err)
	}
	if err := fresh.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), k, "message-7", "worker-1", time.Time{}); !errors.Is(err, engine.ErrDone) {
		t.Errorf("claim of a done step: %v, want ErrDone", err)
	}
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	made, err := engine.OutputsOf[enginetest.Made](view, 1, enginetest.Add)
	if err != nil || made[0] == nil || made[0].Value != 120 || made[1] != nil {
		t.Errorf("made %+v (%v): want only what the fresh attempt made of pair 0", made, err)
	}
}

// Another worker takes the step over while the commit is on its way. A look before the write
// comes too early, so storage must compare.
func TestCommitIsRefusedOnItsWay(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	var meanwhile func()
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if do := meanwhile; do != nil && strings.HasSuffix(r.URL.Path, "$batch") {
			meanwhile = nil
			do()
		}
		return inject.None
	}}
	sleepy := newStore(azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = a.Prefix(), faults }), &outgoing{})
	s := newStore(a, &outgoing{})
	id := uploaded(t, s)
	planned(t, s, id, plan(2, false))
	k := key(id, enginetest.Add, 0)
	stale := claimOf(t, sleepy, k)
	meanwhile = func() {
		if err := claimOf(t, s, k).Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}}); err != nil {
			t.Errorf("the second worker's commit: %v", err)
		}
	}
	if err := stale.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 1}}); !errors.Is(err, engine.ErrSuperseded) {
		t.Errorf("stale commit: %v, want ErrSuperseded", err)
	}
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	made, err := engine.OutputsOf[enginetest.Made](view, 1, enginetest.Add)
	if err != nil || made[0] == nil || made[0].Value != 120 {
		t.Errorf("made %+v (%v): want the second worker's", made, err)
	}
}

func TestCommitSurvivesAnEditOfTheSum(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	c, err := s.Claim(t.Context(), key(id, enginetest.Split, 0), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) { v.Title = "Edited"; return nil, nil }); err != nil {
		t.Fatal(err)
	}
	p := plan(1, false)
	if err := c.Commit(t.Context(), enginetest.Commit{Plan: &p, Edit: func(v *enginetest.Sum) { v.State = engine.Processing }}); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Get(t.Context(), id)
	if err != nil || rec.Subject.Title != "Edited" || rec.Subject.State != engine.Processing {
		t.Errorf("%+v (%v): want both changes", rec.Subject, err)
	}
}

func TestDeletedSumCannotComeBack(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, plan(2, false))
	c, err := s.Claim(t.Context(), key(id, enginetest.Add, 0), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Active(t.Context()); !errors.Is(err, engine.ErrGone) {
		t.Errorf("Active under a tombstone: %v, want ErrGone", err)
	}
	claimed, err := s.Erase(t.Context(), id, false)
	if err != nil || !claimed {
		t.Fatalf("Erase = %t, %v; a step was claimed", claimed, err)
	}
	if _, err := s.Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), enginetest.Commit{Output: 1, Edit: func(*enginetest.Sum) {}}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("late commit: %v, want ErrGone", err)
	}
	if _, err := s.Claim(t.Context(), key(id, enginetest.Add, 1), "m2", "w", time.Time{}); !errors.Is(err, engine.ErrGone) {
		t.Errorf("late claim: %v, want ErrGone", err)
	}
	if _, err := s.View(t.Context(), id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("View: %v, want ErrNotFound", err)
	}
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 1 || !marks[0].Erased {
		t.Errorf("in flight: %v, %v; want the mark of the purge, for what comes late", marks, err)
	}
}

// fanIn is FanIn, and reports whether the last step is promised then.
func fanIn(t *testing.T, s *enginetest.Store, id engine.ID) (bool, error) {
	t.Helper()
	if err := s.FanIn(t.Context(), id); err != nil {
		return false, err
	}
	rec, err := s.Get(t.Context(), id)
	if err == nil {
		_, err = s.ReadRun(t.Context(), engine.Key{ID: id, Generation: rec.Subject.Generation, Step: declared.Only(engine.Last).Name})
	}
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrNoRun) {
		return false, nil
	}
	return err == nil, err
}

func TestFanInHasOneWinner(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	const races, pairs = 10, 4
	for range races {
		id := uploaded(t, s)
		p := plan(pairs, false)
		planned(t, s, id, p)
		out.take()
		var wg sync.WaitGroup
		for i := range pairs {
			wg.Go(func() {
				c, err := s.Claim(t.Context(), key(id, enginetest.Add, i), fmt.Sprint(i), "w", time.Time{})
				if err == nil {
					err = c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}})
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.FanIn(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantSent(t, out, "at the end", "rest: total")
	}
}

// Q5: a sum has only so many pairs in the queues. Each commit promises the next,
// or two when the queues run empty, and together they promise every pair once,
// no matter which commits come at the same time.
func TestCommitsPromiseTheNextRuns(t *testing.T) {
	t.Parallel()
	for _, hungry := range []bool{false, true} {
		t.Run(fmt.Sprintf("hungry %t", hungry), func(t *testing.T) {
			t.Parallel()
			s, out := setup(t)
			out.hungry.Store(hungry)
			id := uploaded(t, s)
			const pairs = 30
			p := plan(pairs, false)
			out.take()
			planned(t, s, id, p)
			open := len(out.take()) - 1 // the step on change
			if open > engine.Window || open < 4 {
				t.Fatalf("%d of %d pairs are in the queues after the fan-out", open, pairs)
			}
			var mu sync.Mutex
			claimed := 0
			var wg sync.WaitGroup
			for range 4 { // workers
				wg.Go(func() {
					for {
						mu.Lock()
						i := claimed
						claimed++
						mu.Unlock()
						if i >= pairs {
							return
						}
						c, err := s.Claim(t.Context(), key(id, enginetest.Add, i), fmt.Sprint(i), "w", time.Time{})
						if err == nil {
							err = c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}})
						}
						if err == nil {
							err = c.SendOutbox(t.Context())
						}
						if err == nil {
							err = s.FanIn(t.Context(), id)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			sent := slices.DeleteFunc(out.take(), func(m string) bool { return m == "rest: list" })
			adds := slices.DeleteFunc(slices.Clone(sent), func(m string) bool { return strings.HasPrefix(m, "rest: total") })
			if len(adds) != pairs-open || len(sent) != len(adds)+1 {
				t.Errorf("%d pairs and %d others were promised after the first %d of %d: %v", len(adds), len(sent)-len(adds), open, pairs, sent)
			}
			view, err := s.View(t.Context(), id)
			if err != nil || view.Unsent || len(view.Missing()) != 1 {
				t.Errorf("at the end the outbox is full: %t, missing are %v, want the last step; %v", view.Unsent, view.Missing(), err)
			}
		})
	}
}

// A commit was about to promise the last pairs when other workers promised them, made them
// and looked: then it is the last one, and its look counts.
func TestCommitThatWasOvertakenStillLooks(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	const pairs = 10
	planned(t, s, id, plan(pairs, false))
	becomesPlayable(t, s, id)
	add := func(i int) {
		c, err := s.Claim(t.Context(), key(id, enginetest.Add, i), fmt.Sprint(i), "w", time.Time{})
		if err == nil {
			err = c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}})
		}
		if err == nil {
			err = c.SendOutbox(t.Context())
		}
		if err == nil {
			err = c.Follow(t.Context())
		}
		if err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
	}
	out.meanwhile = func() {
		for i := range pairs - 1 {
			add(i + 1)
		}
		out.take()
	}
	add(0)
	if diff := cmp.Diff([]string{"rest: total"}, out.take()); diff != "" {
		t.Errorf("after the last pair these are sent (-want +got):\n%s", diff)
	}
}

// The reconciler and a retry send again what was promised, not the whole film.
func TestMissingIsWhatWasPromised(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	out.take()
	planned(t, s, id, plan(30, false))
	open := len(out.take()) - 1 // the step on change
	view, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if missing := view.Missing(); len(missing) != open {
		t.Errorf("%d messages are missing, %d were promised", len(missing), open)
	}
}

func TestSettleKeepsARenewedMark(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := uploaded(t, s)
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 1 {
		t.Fatalf("Inflight = %v, %v; want one mark", marks, err)
	}
	if _, err := s.Cancel(t.Context(), id); err != nil { // new work, new mark
		t.Fatal(err)
	}
	if err := s.ClearInflight(t.Context(), marks[0]); err != nil {
		t.Fatal(err)
	}
	again, err := inflight(t, s)
	if err != nil || len(again) != 1 {
		t.Fatalf("Inflight = %v, %v; a stale Settle removed the mark", again, err)
	}
	if err := s.ClearInflight(t.Context(), again[0]); err != nil {
		t.Fatal(err)
	}
	if left, err := inflight(t, s); err != nil || len(left) != 0 {
		t.Errorf("Inflight = %v, %v; want nothing", left, err)
	}
}

func TestRetryKeepsFinishedRuns(t *testing.T) {
	t.Parallel()
	s, out := setup(t)
	id := uploaded(t, s)
	planned(t, s, id, plan(3, true))
	c, err := s.Claim(t.Context(), key(id, enginetest.Add, 1), "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{}}); err != nil {
		t.Fatal(err)
	}
	bad, err := s.Claim(t.Context(), key(id, enginetest.Add, 2), "m2", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	failure := &engine.Failure{Code: enginetest.NegativeNumber, Detail: "no"}
	if err := bad.Fail(t.Context(), failure); err != nil {
		t.Fatal(err)
	}
	rec, err := s.Get(t.Context(), id)
	if err != nil || rec.Subject.State != engine.Failed || rec.Subject.Error.Code != enginetest.NegativeNumber {
		t.Fatalf("%+v, %v; want the failure", rec.Subject, err)
	}
	if err := s.Flush(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out.take()
	if _, err := s.Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	want := []string{"first: add", "bulk: square", "bulk: square", "bulk: add", "rest: list"}
	if diff := cmp.Diff(want, out.take()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if _, err := s.Retry(t.Context(), id); !errors.Is(err, engine.ErrState) {
		t.Errorf("retry of a sum that is processing: %v, want ErrState", err)
	}
}

func claimOf(t *testing.T, s *enginetest.Store, k engine.Key) *enginetest.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), k, "message "+k.ItemID(), "worker", time.Time{})
	if err != nil {
		t.Fatalf("%s: %v", k, err)
	}
	return c
}
