package workers_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workers"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// One row that cannot be read hides no other worker, and goes like any other when the
// worker is dead.
func TestUnreadableRowsHideNobody(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), nil, nil, []string{workers.Table}); err != nil {
		t.Fatal(err)
	}
	register, table := workers.New(a), tablestore.New(a.Table(workers.Table))
	now := time.Now()
	for name, seen := range map[string]time.Time{"alive": now, "dead": now.Add(-48 * time.Hour)} {
		if err := register.Beat(t.Context(), workers.Worker{Name: name, SeenAt: seen}); err != nil {
			t.Fatal(err)
		}
		_, err := table.Upsert(t.Context(), tablestore.Entity{PartitionKey: "worker", RowKey: "a later release, " + name, Props: map[string]any{"Doc": `{"pools":[1]}`, "SeenAt": seen.UTC()}})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(since time.Time, names ...string) {
		t.Helper()
		list, err := register.List(t.Context(), since)
		got := map[string]bool{} // by name: whether the row could be read
		for _, w := range list {
			got[w.Name] = !w.Unreadable
		}
		wanted := map[string]bool{}
		for _, name := range names {
			wanted[name], wanted["a later release, "+name] = true, false
		}
		if diff := cmp.Diff(wanted, got); err != nil || diff != "" {
			t.Errorf("since %v: %v (-want +got)\n%s", since, err, diff)
		}
	}
	want(time.Time{}, "alive", "dead")
	want(now.Add(-time.Minute), "alive")
	for _, there := range []int{4, 2} { // repeating does no harm
		rows, unreadable, err := register.Forget(t.Context(), now.Add(-24*time.Hour))
		if err != nil || rows != there || unreadable != there/2 {
			t.Errorf("%d rows, %d of them unreadable, %v: want %d and half", rows, unreadable, err, there)
		}
		want(time.Time{}, "alive")
	}
}
