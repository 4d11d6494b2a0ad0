package workqueue_test

import (
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// laned has two queues with lanes.
var laned = []workqueue.Spec{{Name: "first", Pool: "light", Laned: true}, {Name: "last", Pool: "light", Laned: true}}

func stack(t *testing.T) *workqueue.Queues {
	t.Helper()
	qs := workqueue.OpenAll(azuritetest.Account(t), laned)
	if err := qs.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return qs
}

// place chooses a lane for a job of the customer and puts its first item there.
func place(t *testing.T, qs *workqueue.Queues, customer string, i int) int {
	t.Helper()
	lane, _ := qs.Lane(t.Context(), customer, false)
	send(t, qs.Queue(workqueue.LaneName("first", lane)), newItem(t, fmt.Sprint(customer, i), nil))
	return lane
}

// Q5: while no customer waits, everything travels on lane 0. A customer that sends much
// fills its own two lanes, and any other customer finds one that is short.
func TestQuietCustomersFindAShortLane(t *testing.T) {
	t.Parallel()
	qs := stack(t)
	if lane := place(t, qs, "first", 0); lane != 0 {
		t.Errorf("the first job of an idle stack travels on lane %d", lane)
	}
	var got [workqueue.Lanes]int
	for i := range 60 {
		got[place(t, qs, "noisy", i)]++
	}
	long := 0
	for _, n := range got {
		if n > 20 {
			long++
		}
	}
	if long != 2 || got[0] > 6 {
		t.Errorf("sixty jobs of one customer went to lanes %v, want two of them full", got)
	}
	if lane, _ := qs.Lane(t.Context(), "noisy", true); got[lane] > 20 {
		t.Errorf("an urgent job of the same customer went to lane %d of %v", lane, got)
	}
	for i := range 12 {
		customer := fmt.Sprint("quiet-", i) // some have the same two lanes
		if lane := place(t, qs, customer, 0); got[lane] > 20 {
			t.Errorf("the first job of %s went to lane %d of %v", customer, lane, got)
		}
	}
}

// A busy customer has two lanes besides lane 0, the same ones in every process, and
// customers do not all have the same two.
func TestTwoLanesAreTheCustomersOwn(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	first, second := workqueue.OpenAll(account, laned), workqueue.OpenAll(account, laned)
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lane := range workqueue.Lanes { // all lanes are busy
		for i := range 10 {
			send(t, first.Queue(workqueue.LaneName("first", lane)), newItem(t, fmt.Sprint("busy", i), nil))
		}
	}
	pairs := map[[workqueue.Lanes]bool]int{}
	for c := range 24 {
		customer := fmt.Sprint("customer-", c)
		var used [workqueue.Lanes]bool
		n := 0
		for _, qs := range []*workqueue.Queues{first, second} {
			for i := range 10 {
				lane, _ := qs.Lane(t.Context(), customer, false)
				if i >= 4 && !used[lane] { // it has shown that it is busy
					used[lane] = true
					n++
				}
			}
		}
		if used[0] || n > 2 {
			t.Errorf("%s uses lanes %v, want at most two and not lane 0, which is busy", customer, used)
		}
		pairs[used]++
	}
	if len(pairs) < 3 {
		t.Errorf("24 customers use only these lanes: %v", pairs)
	}
}

// The lanes of a queue are paused and resumed together, have one poison queue, and
// are cleared together through lane 0.
func TestLanesAreOneQueueToTheOperator(t *testing.T) {
	t.Parallel()
	qs := stack(t)
	lane0, lane2 := qs.Queue("last"), qs.Queue(workqueue.LaneName("last", 2))
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
	if err := qs.Clear(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*workqueue.Queue{lane0, lane2} {
		if state, err := q.Length(t.Context()); err != nil || state.Length != 0 {
			t.Errorf("after Clear %s holds %d messages, %v", q.Name(), state.Length, err)
		}
	}
}
