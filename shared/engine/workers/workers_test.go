package workers_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// One row that cannot be read hides no other worker, and goes like any other when the
// worker is dead.
func TestUnreadableRowsHideNoWorker(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{workers.Table, tablestore.UnreadableTable}}); err != nil {
		t.Fatal(err)
	}
	register, table := workers.New(a), tablestore.New(a, workers.Table)
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
	want := func(unreadable int, names ...string) {
		t.Helper()
		list, err := register.List(t.Context(), time.Time{})
		var got []string
		for _, w := range list {
			got = append(got, w.Name)
		}
		if diff := cmp.Diff(names, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		noted, _, err := tablestore.OpenUnreadable(a).List(t.Context(), 10, "")
		if err != nil || len(noted) != unreadable {
			t.Errorf("unreadable: %v, %v; want %d", noted, err, unreadable)
		}
	}
	want(2, "alive", "dead")
	for _, dead := range []int{2, 0} { // repeating does no harm
		if rows, err := register.Forget(t.Context(), now.Add(-24*time.Hour)); err != nil || rows != dead {
			t.Errorf("%d rows went, %v: want %d", rows, err, dead)
		}
		want(1, "alive")
	}
}
