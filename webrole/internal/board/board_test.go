package board

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func open(t *testing.T) *Board {
	t.Helper()
	account := azuritetest.Account(t)
	queues := azq.Open(account, azq.Options{Queues: []azq.Spec{{Name: "jobs", Kinds: []string{"work"}, Pool: "light"}}})
	if err := queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	b := New(web.Parts{Queues: queues, Workers: workers.New(account)}, &scaling.Window{Settings: scaling.Settings{Floor: 1, Ceiling: 1}})
	t.Cleanup(b.Close)
	return b
}

// watch returns what gives the next state.
func watch(t *testing.T, b *Board) (next func() *State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(40*time.Second))
	pull, stop := iter.Pull2(b.Watch(ctx))
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return func() *State {
		t.Helper()
		state, err, _ := pull()
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
}

// A slow watcher gets the newest state, and none of those in between. The others do not
// wait for it.
func TestASlowWatcherGetsTheNewestState(t *testing.T) {
	t.Parallel()
	b := open(t)
	quick, slow := watch(t, b), watch(t, b)
	if first := slow().Event; first.Queues == nil || first.Workers == nil || first.Samples == nil {
		t.Errorf("the first state is not complete: %+v", first)
	}
	var newest time.Time
	for range 4 {
		at := quick().Event.At
		if !at.After(newest) {
			t.Errorf("a state of %v after one of %v", at, newest)
		}
		newest = at
	}
	if got := slow().Event.At; got.Before(newest) {
		t.Errorf("the slow watcher got a state of %v, and there is one of %v", got, newest)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range MaxWatchers {
		watch(t, b)()
	}
	for _, err := range b.Watch(t.Context()) {
		if !errors.Is(err, errCrowded) {
			t.Errorf("one more: %v", err)
		}
	}
	b.Close()
	if _, err := b.State(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// Opening and closing the board again and again costs no more than keeping it open.
func TestTheBudgetOutlivesReaders(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	b := open(t)
	began := time.Now()
	for time.Since(began) < 4*time.Second {
		for _, err := range b.Watch(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		b.reader = nil // as if the board had not been looked at for long
	}
	if n, most := float64(b.requests.Load()), burst+Budget*(time.Since(began).Seconds()+1); n > most {
		t.Errorf("%v requests, want at most %v", n, most)
	}
}

// Of a worker whose heartbeats stopped it is not known whether it leads, and another one does soon.
func TestASilentWorkerDoesNotLead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for late, leads := range map[time.Duration]bool{0: true, time.Minute: false} {
		if out := workerOf(workers.Worker{Leader: true, SeenAt: now.Add(-late)}, now, nil); out.Leader != leads || out.Silent == leads {
			t.Errorf("seen %v ago: leader %v, silent %v", late, out.Leader, out.Silent)
		}
	}
}

// A queue whose messages could not be read when it was last busy does not keep the trouble on.
func TestTroubleEndsWithTheQuestion(t *testing.T) {
	t.Parallel()
	b := open(t)
	next := watch(t, b)
	next()
	b.reader.unanswered[&b.reader.queueViews[0].peekAt] = errors.New("away")
	if state := next(); state.stale != nil {
		t.Errorf("trouble: %v", state.stale)
	}
}
