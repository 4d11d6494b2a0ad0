package board

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func open(t *testing.T) *Board {
	t.Helper()
	account := azuritetest.Account(t)
	queues := workqueue.OpenAll(account, []workqueue.Spec{{Name: "jobs", Steps: []string{"work"}, Pool: "light"}})
	if err := queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := account.Ensure(t.Context(), nil, nil, []string{workers.Table}); err != nil {
		t.Fatal(err)
	}
	b := New(Parts{Queues: queues, Workers: workers.New(account), Scale: scaling.NewSource(queues, nil, scaling.Settings{Floor: 1, Ceiling: 1}), Title: func(context.Context, video.ID) (string, error) { return "", nil }})
	t.Cleanup(b.Close)
	return b
}

func watch(t *testing.T, b *Board) *Watcher {
	t.Helper()
	w, err := b.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// next returns the next state.
func next(t *testing.T, w *Watcher) (state api.BoardEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(20*time.Second))
	defer cancel()
	data, err := w.Next(ctx)
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// A slow watcher gets the newest state, and none of those in between. The reader does not
// wait for it.
func TestASlowWatcherGetsTheNewestState(t *testing.T) {
	t.Parallel()
	b := open(t)
	quick, slow := watch(t, b), watch(t, b)
	first := next(t, slow)
	if first.Queues == nil || first.Workers == nil || first.Samples == nil {
		t.Errorf("the first state is not complete: %+v", first)
	}
	var newest api.BoardEvent
	for range 4 {
		state := next(t, quick)
		if !state.At.After(newest.At) {
			t.Errorf("a state of %v after one of %v", state.At, newest.At)
		}
		newest = state
	}
	if got := next(t, slow); got.At.Before(newest.At) {
		t.Errorf("the slow watcher got a state of %v, and there is one of %v", got.At, newest.At)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range MaxWatchers {
		watch(t, b)
	}
	if _, err := b.Watch(); !errors.Is(err, ErrCrowded) {
		t.Errorf("one more: %v", err)
	}
	b.Close()
	if _, err := b.Watch(); !errors.Is(err, ErrClosed) {
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
		w, err := b.Watch()
		if err != nil {
			t.Fatal(err)
		}
		next(t, w)
		w.Close()
	}
	if n, most := float64(b.Requests()), burst+Budget*(time.Since(began).Seconds()+1); n > most {
		t.Errorf("%v requests, want at most %v", n, most)
	}
}
