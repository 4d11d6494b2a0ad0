package board

import (
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

func scale(t *testing.T, queues *azq.Client, register *workers.Register) api.Scale {
	t.Helper()
	window := &scaling.Window{
		Settings: scaling.Settings{Begin: 10 * time.Second, Bulk: 30 * time.Minute, Floor: 1, Ceiling: 10, CoolDown: time.Minute},
		Slots:    map[string]int{"heavy": 9},
	}
	b := New(web.Parts{Queues: queues, Workers: register}, window)
	t.Cleanup(b.Close)
	state, err := b.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Event.Scale
}

// Q4, Q18: visible and hidden messages of all lanes are told apart, beyond the 32 that
// one request shows, and items weigh what workers measured.
func TestQueuesAreSeenWhole(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	queues := azqtest.Open(t, account, azq.Spec{Name: "jobs", Pool: "heavy", Laned: true, Kinds: []string{"work"}, Typical: 4 * time.Second, Visibility: time.Hour})
	register := workers.New(account)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	send := func(queue string, n int) {
		for range n {
			azqtest.Send(t, queues, queue, azq.Item{ID: "i", Kind: "work", Version: 1, Subject: "s"})
		}
	}
	send("jobs", 40)
	send("jobs-2", 5)
	take := func(queue string, n int) (tasks []azq.Running) {
		leases, err := queues.Queue(queue).Receive(t.Context(), n)
		if err != nil || len(leases) != n {
			t.Fatalf("receive: %d, %v", len(leases), err)
		}
		for range n {
			tasks = append(tasks, azq.Running{Queue: queue})
		}
		return tasks
	}
	busy := append(take("jobs", 3), take("jobs-2", 2)...)
	for _, w := range []workers.Worker{
		{Name: "a", SeenAt: time.Now(), Busy: busy, Pools: map[string]int{"heavy": 2}, Queues: map[string]workers.Count{"jobs-1": {Done: 15, Seconds: 20}}},
		{Name: "b", SeenAt: time.Now(), Pools: map[string]int{"heavy": 4}, Queues: map[string]workers.Count{"jobs": {Done: 70}}}, // measured nothing
		{Name: "leaving", SeenAt: time.Now(), Pools: map[string]int{"heavy": 40}, Draining: true},
		{Name: "dead", SeenAt: time.Now().Add(-time.Minute), Pools: map[string]int{"heavy": 40}},
	} {
		if err := register.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	d := scale(t, queues, register)
	if len(d.Queues) != 1 {
		t.Fatalf("%+v", d)
	}
	q := d.Queues[0]
	if q.Visible != 40 || q.Hidden != 5 || q.OldestSeconds <= 0 || q.OldestSeconds > 3600 || q.SecondsEach != 2 { // (5×4 s + 20 s) / (5 + 15)
		t.Errorf("seen %+v", q)
	}
	if d.Workers != 2 || d.Wanted != 2 || !strings.Contains(d.Why, "a worker has 3 slots") {
		t.Errorf("decided %+v", d)
	}
}

// Without a living worker some are wanted all the same, with the slots that they will have.
func TestNoWorkerLives(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	queues := azqtest.Open(t, account, azq.Spec{Name: "jobs", Pool: "heavy", Kinds: []string{"work"}, Urgent: true, Typical: time.Minute})
	for range 10 {
		azqtest.Send(t, queues, "jobs", azq.Item{ID: "i", Kind: "work", Version: 1, Subject: "s"})
	}
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table}}); err != nil {
		t.Fatal(err)
	}
	if d := scale(t, queues, workers.New(account)); d.Wanted != 2 || d.Workers != 0 || !strings.Contains(d.Why, "a worker has 9 slots") {
		t.Errorf("%+v", d)
	}
}
