package audit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// Entries come newest first, over days, page by page; what is old enough goes, and
// nothing else.
func TestTrail(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{audit.Table}}); err != nil {
		t.Fatal(err)
	}
	trail, table := audit.New(a), tablestore.New(a, audit.Table)
	var want []string
	// Older days, as they were written then.
	for _, day := range []time.Time{time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)} {
		for i := range 120 {
			name := fmt.Sprint(day.Format(time.DateOnly), " ", i)
			_, err := table.Insert(t.Context(), tablestore.Entity{
				PartitionKey: tablestore.InvertedTime(day.Truncate(24 * time.Hour)), RowKey: tablestore.InvertedTime(day.Add(time.Duration(i)*time.Second)) + "__aaaaaaaa", Props: map[string]any{"Request": name},
			})
			if err != nil {
				t.Fatal(err)
			}
			want = append([]string{name}, want...)
		}
	}
	for i := range 3 {
		name := fmt.Sprint("now ", i)
		if err := trail.Write(t.Context(), audit.Entry{Owner: "ann", Action: "DELETE /", Request: name, Status: 200 + i}); err != nil {
			t.Fatal(err)
		}
		want = append([]string{name}, want...)
		time.Sleep(2 * time.Millisecond) // keys have milliseconds
	}
	for _, limit := range []int{1000, 100, 7} {
		var got []string
		for token := ""; ; {
			page, next, err := trail.List(t.Context(), limit, token)
			if err != nil || len(page) > limit {
				t.Fatal(len(page), err)
			}
			for _, e := range page {
				got = append(got, e.Request)
			}
			if token = next; token == "" {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("by %d: %d entries, want %d: %v", limit, len(got), len(want), got)
		}
	}
	for _, bad := range []string{"x", "79749768", "." + "a"} {
		if _, _, err := trail.List(t.Context(), 5, bad); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("token %q: %v", bad, err)
		}
	}
	for i, left := range []int{123, 123, 3, 3} {
		before := []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), time.Now()}[i]
		if _, err := trail.Forget(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		page, _, err := trail.List(t.Context(), 1000, "")
		if err != nil || len(page) != left {
			t.Errorf("before %v: %d entries are left, want %d; %v", before, len(page), left, err)
		}
	}
}
