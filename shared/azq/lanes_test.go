package azq_test

import (
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// laned has two queues with lanes.
var laned = []azq.Spec{{Name: "first", Pool: "light", Laned: true}, {Name: "last", Pool: "light", Laned: true}}

func stack(t *testing.T) *azq.Client {
	t.Helper()
	qs := azq.Open(azuritetest.Account(t), azq.Options{Queues: laned})
	if err := qs.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return qs
}

// place chooses a lane for a job of the customer and puts its first item there.
func place(t *testing.T, qs *azq.Client, customer string, i int) int {
	t.Helper()
	lane, _ := qs.Lane(t.Context(), customer, false)
	sendItem(t, qs.Queue(azq.LaneName("first", lane)), itemWith(t, fmt.Sprint(customer, i), nil))
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
	var got [azq.DefaultLanes]int
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
	first, second := azq.Open(account, azq.Options{Queues: laned}), azq.Open(account, azq.Options{Queues: laned})
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lane := range azq.DefaultLanes { // all lanes are busy
		for i := range 10 {
			sendItem(t, first.Queue(azq.LaneName("first", lane)), itemWith(t, fmt.Sprint("busy", i), nil))
		}
	}
	pairs := map[[azq.DefaultLanes]bool]int{}
	for c := range 24 {
		customer := fmt.Sprint("customer-", c)
		var used [azq.DefaultLanes]bool
		n := 0
		for _, qs := range []*azq.Client{first, second} {
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
	lane0, lane2 := qs.Queue("last"), qs.Queue(azq.LaneName("last", 2))
	if err := lane2.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := lane0.Length(t.Context()); err != nil || !state.Policy.Paused || !lane2.Policy().Paused {
		t.Errorf("lane 0 is paused: %t, lane 2: %t, %v", state.Policy.Paused, lane2.Policy().Paused, err)
	}
	sendItem(t, lane0, itemWith(t, "a", nil))
	sendItem(t, lane2, itemWith(t, "b", nil))
	sendItem(t, lane2, itemWith(t, "c", nil))
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
	if err := lane0.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*azq.Queue{lane0, lane2} {
		if state, err := q.Length(t.Context()); err != nil || state.Length != 0 {
			t.Errorf("after Clear %s holds %d messages, %v", q.Name(), state.Length, err)
		}
	}
}

// A worker that sleeps hears of a queue that is resumed, in each of its lanes.
func TestResumeRingsEveryLane(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, laned...)
	if err := qs.Queue("last").Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lane := range azq.DefaultLanes {
		name := azq.LaneName("last", lane)
		if _, err := a.Table(azq.DoorbellTable).GetEntity(t.Context(), "all", "ring "+name, nil); err != nil {
			t.Errorf("the bell of %s: %v", name, err)
		}
	}
}
