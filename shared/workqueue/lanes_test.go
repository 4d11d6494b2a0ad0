package workqueue_test

import (
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/workqueue"
)

func stack(t *testing.T) *workqueue.Queues {
	t.Helper()
	qs := workqueue.OpenAll(azuritetest.Account(t), workqueue.Specs)
	if err := qs.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return qs
}

// place chooses a lane for a video of the channel and puts its probe there.
func place(t *testing.T, qs *workqueue.Queues, channel string, i int) int {
	t.Helper()
	lane := qs.Lane(t.Context(), channel)
	send(t, qs.Queue(workqueue.LaneName(workqueue.Probe, lane)), newItem(t, fmt.Sprint(channel, i), nil))
	return lane
}

// Q5: while nobody waits, everything travels on lane 0. A channel that sends much
// fills its own lanes and leaves lane 0 short.
func TestChannelsGetLanes(t *testing.T) {
	t.Parallel()
	qs := stack(t)
	got := map[int]int{}
	for i := range 60 {
		got[place(t, qs, "noisy", i)]++
	}
	if got[0] == 0 || got[0] > 5 || len(got) > 3 {
		t.Errorf("sixty videos of one channel went to lanes %v, want a few to lane 0 and the rest to two others", got)
	}
	if len(got) == 3 {
		for lane, n := range got {
			if lane != 0 && n < 20 {
				t.Errorf("lanes are %v: the shorter of two is not chosen", got)
			}
		}
	}
}

// Each channel has two lanes besides lane 0, the same ones in every process, and
// channels do not all have the same two.
func TestTwoLanesAreTheChannelsOwn(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	first, second := workqueue.OpenAll(account, workqueue.Specs), workqueue.OpenAll(account, workqueue.Specs)
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // lane 0 is busy
		send(t, first.Queue(workqueue.Probe), newItem(t, fmt.Sprint("busy", i), nil))
	}
	pairs := map[[workqueue.Lanes]bool]int{}
	for c := range 24 {
		channel := fmt.Sprint("channel-", c)
		var used [workqueue.Lanes]bool
		for _, qs := range []*workqueue.Queues{first, second} {
			for range 8 {
				used[qs.Lane(t.Context(), channel)] = true
			}
		}
		n := 0
		for _, u := range used {
			if u {
				n++
			}
		}
		if used[0] || n > 2 {
			t.Errorf("%s uses lanes %v, want at most two and not lane 0, which is busy", channel, used)
		}
		pairs[used]++
	}
	if len(pairs) < 3 {
		t.Errorf("24 channels use only these lanes: %v", pairs)
	}
}

// The lanes of a queue are paused and resumed together, have one poison queue, and
// are cleared together through lane 0.
func TestLanesAreOneQueueToTheOperator(t *testing.T) {
	t.Parallel()
	qs := stack(t)
	lane0, lane2 := qs.Queue(workqueue.Finish), qs.Queue(workqueue.LaneName(workqueue.Finish, 2))
	if err := lane2.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := lane0.Length(t.Context()); err != nil || !state.Policy.Paused || !lane2.Policy().Paused {
		t.Errorf("lane 0 is paused: %t, lane 2: %t, %v", state.Policy.Paused, lane2.Policy().Paused, err)
	}
	send(t, lane0, newItem(t, "a", nil))
	send(t, lane2, newItem(t, "b", nil))
	send(t, lane2, newItem(t, "c", nil))
	poisoned := receive(t, lane2)
	if err := poisoned.Poison(t.Context(), "test", nil); err != nil {
		t.Fatal(err)
	}
	list, _, err := qs.ListPoison(t.Context(), 10, "")
	if err != nil || len(list) != 1 {
		t.Fatalf("ListPoison = %v, %v", list, err)
	}
	if _, err := qs.Redrive(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	if state, err := lane2.Length(t.Context()); err != nil || state.Length != 2 {
		t.Errorf("after the redrive lane 2 holds %d messages, want 2, %v", state.Length, err)
	}
	if err := qs.Clear(t.Context(), workqueue.Finish); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*workqueue.Queue{lane0, lane2} {
		if state, err := q.Length(t.Context()); err != nil || state.Length != 0 {
			t.Errorf("after Clear %s holds %d messages, %v", q.Name(), state.Length, err)
		}
	}
}
