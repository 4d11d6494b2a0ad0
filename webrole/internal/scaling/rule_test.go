package scaling

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

var usual = Settings{Begin: 10 * time.Second, Bulk: 30 * time.Minute, Floor: 1, Ceiling: 10, CoolDown: 5 * time.Minute}

func heavy(name string, visible, hidden int64, oldest, each time.Duration) api.ScaleQueue {
	return api.ScaleQueue{
		Name: name, Pool: "heavy", Urgent: name == "first", Visible: visible, Hidden: hidden,
		OldestSeconds: oldest.Seconds(), SecondsEach: each.Seconds(),
	}
}

// Q4, Q18: what is in the queues says how many workers are wanted, and why.
func TestWhatTheQueuesWant(t *testing.T) {
	t.Parallel()
	purge := api.ScaleQueue{Name: "purge", Pool: "light", Visible: 100, SecondsEach: .5}
	sound := api.ScaleQueue{Name: "sound", Pool: "light", Visible: 600, SecondsEach: 30}
	few := sound
	few.Visible, few.OldestSeconds, few.Urgent = 6, 60, true
	paused := heavy("bulk", 1000, 0, 0, time.Minute)
	paused.Paused = true
	for _, c := range []struct {
		name    string
		queues  []api.ScaleQueue
		workers int
		wanted  int
		why     string
	}{
		{"nothing", nil, 1, 1, "floor"},
		{"nothing, and no worker", nil, 0, 1, "floor"},
		{"100 purges are 50 s of work", []api.ScaleQueue{purge}, 1, 1, "floor"},
		{"100 encodes are 50 min of work", []api.ScaleQueue{heavy("bulk", 100, 0, 0, 30*time.Second)}, 1, 1, "floor"},
		{"1000 encodes", []api.ScaleQueue{heavy("bulk", 1000, 0, 0, 30*time.Second)}, 1, 9, "done within 30m"},
		{"half the time is over", []api.ScaleQueue{heavy("bulk", 400, 0, 15*time.Minute, 30*time.Second)}, 1, 7, "900 s old"},
		{"late: a quarter of the time is left, not none", []api.ScaleQueue{heavy("bulk", 100, 0, 9*time.Hour, 30*time.Second)}, 1, 4, "32400 s old"},
		{"a viewer waits", []api.ScaleQueue{heavy("first", 30, 0, 0, 2*time.Second)}, 1, 3, "begun within 10s"},
		{"a viewer has waited", []api.ScaleQueue{heavy("first", 30, 0, 5*time.Second, 2*time.Second)}, 1, 6, "begun within 10s"},
		{"no more slots than messages", []api.ScaleQueue{heavy("first", 3, 0, time.Minute, time.Minute)}, 1, 2, "only 3 messages"},
		{"what is in progress keeps its workers", []api.ScaleQueue{heavy("bulk", 0, 6, 0, time.Second)}, 3, 3, "in progress"},
		{"what is in progress asks for no more", []api.ScaleQueue{heavy("bulk", 0, 600, 0, time.Second)}, 3, 3, "in progress"},
		{"a paused queue", []api.ScaleQueue{paused}, 1, 1, "floor"},
		{"600 portions of sound", []api.ScaleQueue{purge, sound}, 1, 3, "light is to be done within 30m"},
		{"no more slots than messages", []api.ScaleQueue{few}, 1, 2, "only 6 messages of light"},
		{"the ceiling", []api.ScaleQueue{heavy("first", 900, 0, 0, 2*time.Second)}, 1, 10, "without it 90"},
		{"the pool that wants most", []api.ScaleQueue{purge, heavy("first", 20, 0, 0, 2*time.Second)}, 1, 2, "heavy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := Observation{Queues: c.queues, Workers: c.workers, Slots: map[string]int{"heavy": 2, "light": 4}}
			if n, why := Want(usual, seen); n != c.wanted || !strings.Contains(why, c.why) {
				t.Errorf("%d workers: %s; want %d because of %q", n, why, c.wanted, c.why)
			}
		})
	}
}

// More work never wants fewer workers, and the bounds hold whatever is seen.
func TestMoreWorkWantsNoFewerWorkers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) api.ScaleQueue {
			return heavy(name, rapid.Int64Range(0, 1e7).Draw(t, "visible"), rapid.Int64Range(0, 1e7).Draw(t, "hidden"),
				time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "oldest")), time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "each")))
		}
		seen := Observation{Queues: []api.ScaleQueue{draw("first"), draw("bulk"), draw("sound")}, Workers: rapid.IntRange(0, 1000).Draw(t, "workers"), Slots: map[string]int{"heavy": rapid.IntRange(0, 64).Draw(t, "slots")}}
		before, _ := Want(usual, seen)
		if before < usual.Floor || before > usual.Ceiling {
			t.Fatalf("%d workers", before)
		}
		seen.Queues[rapid.IntRange(1, 2).Draw(t, "queue")].Visible += rapid.Int64Range(0, 1000).Draw(t, "more")
		if after, _ := Want(usual, seen); after < before {
			t.Fatalf("%d workers before, %d with more work", before, after)
		}
	})
}

// Workers come at once and go when fewer were wanted for the whole cool-down.
func TestWorkersGoAfterTheCoolDown(t *testing.T) {
	t.Parallel()
	w := Window{Settings: usual, Slots: map[string]int{"heavy": 2}}
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(after time.Duration, waiting int64) api.Scale {
		return w.Decide(Observation{
			At:     begun.Add(after),
			Queues: []api.ScaleQueue{heavy("first", waiting, 0, 0, 2*time.Second)},
		})
	}
	for _, c := range []struct {
		after   time.Duration
		waiting int64
		wanted  int
	}{
		{0, 0, 1},
		{time.Second, 50, 5},
		{time.Minute, 0, 5},
		{2 * time.Minute, 30, 5},
		{5 * time.Minute, 0, 5},
		{5*time.Minute + 2*time.Second, 0, 3}, // the 5 of the first second are too long ago, the 3 are not
		{7*time.Minute + time.Second, 0, 1},
		{7*time.Minute + 2*time.Second, 90, 9},
	} {
		if d := at(c.after, c.waiting); d.Wanted != c.wanted {
			t.Errorf("after %v with %d waiting: %d workers, want %d: %s", c.after, c.waiting, d.Wanted, c.wanted, d.Why)
		}
	}
}
