package board

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
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
	b := New(Parts{Queues: queues, Workers: workers.New(account), Scale: scaling.NewSource(queues, workers.New(account), nil, scaling.Settings{Floor: 1, Ceiling: 1}), Title: func(context.Context, video.ID) (string, error) { return "", nil }})
	t.Cleanup(b.Close)
	return b
}

func look(t *testing.T, b *Board) *Looker {
	t.Helper()
	l, err := b.Look()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Leave)
	return l
}

func next(t *testing.T, l *Looker) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(20*time.Second))
	defer cancel()
	event, err := l.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// tell sends changes that the reader did not make.
func tell(b *Board, from, to int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := from; i < to; i++ {
		b.tell(Event{Kind: Change, ID: "test-" + strconv.Itoa(i), Data: []byte("{}")})
	}
}

// Who reads slowly holds a bounded number of events, and then gets one snapshot
// instead of them. Nobody waits for it.
func TestASlowLookerGetsASnapshot(t *testing.T) {
	t.Parallel()
	b := open(t)
	quick, slow := look(t, b), look(t, b)
	for _, l := range []*Looker{quick, slow} {
		if e := next(t, l); e.Kind != Snapshot {
			t.Fatalf("the first event is a %s", e.Kind)
		}
	}
	for i := range 3 * maxPending {
		tell(b, i, i+1)
		for id := "test-" + strconv.Itoa(i); ; { // changes that the reader made are among them
			if e := next(t, quick); e.Kind != Change {
				t.Fatalf("who keeps up got a %s", e.Kind)
			} else if e.ID == id {
				break
			}
		}
	}
	b.mu.Lock()
	held := len(slow.pending)
	b.mu.Unlock()
	if held > maxPending {
		t.Errorf("%d events wait for the slow one", held)
	}
	if e := next(t, slow); e.Kind != Snapshot {
		t.Errorf("the slow one got a %s", e.Kind)
	}
	tell(b, 100, 101)
	for {
		if e := next(t, slow); e.ID == "test-100" {
			break
		} else if e.Kind != Change {
			t.Fatalf("after its snapshot it got another %s", e.Kind)
		}
	}
}

func TestLookersAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t)
	for range MaxLookers {
		look(t, b)
	}
	if _, err := b.Look(); !errors.Is(err, ErrCrowded) {
		t.Errorf("one more: %v", err)
	}
	b.Close()
	if _, err := b.Look(); !errors.Is(err, ErrClosed) {
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
		l, err := b.Look()
		if err != nil {
			t.Fatal(err)
		}
		next(t, l)
		l.Leave()
	}
	if n, most := float64(b.Requests()), burst+Budget*(time.Since(began).Seconds()+1); n > most || n < burst {
		t.Errorf("%v requests, want between %v and %v", n, burst, most)
	}
}
