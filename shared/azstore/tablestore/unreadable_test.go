package tablestore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// A row of another type than its reader asks for is an error, once it was asked for.
func TestGettersNoteOtherTypes(t *testing.T) {
	t.Parallel()
	table := open(t, nil)
	props := map[string]any{"Text": "x", "Number": int32(1), "Whole": 3.0, "When": time.Now(), "Raw": []byte{1}, "Yes": true}
	if _, err := table.Insert(t.Context(), row("p", "r", props)); err != nil {
		t.Fatal(err)
	}
	for name := range props {
		got, err := table.Get(t.Context(), "p", "r")
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, _, _, _, _ = got.String("Text"), got.Int("Number"), got.Float("Whole"), got.Time("When"), got.Bytes("Raw"), got.Bool("Yes"), got.String("Missing")
		if err := got.Err(); err != nil {
			t.Errorf("right types: %v", err)
		}
		switch name {
		case "Text", "When", "Raw", "Yes":
			_ = got.Float(name)
		default:
			_ = got.String(name)
		}
		if got.Err() == nil {
			t.Errorf("%s may be asked for as something else", name)
		}
	}
}

// What cannot be read is left out of every way to read many rows, and reported once for
// each version; it is forgotten when it has changed, and deleted only as it was.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	counted := 0
	a := azuritetest.AccountWith(t, func(c *azstore.Config) {
		c.Unreadable = func(table string, rows int) {
			if table == "rows" {
				counted += rows
			}
		}
	})
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{"rows", tablestore.UnreadableTable}}); err != nil {
		t.Fatal(err)
	}
	table, unreadable := tablestore.New(a, "rows"), tablestore.OpenUnreadable(a)
	for n := range 9 {
		props := map[string]any{"N": int32(n)}
		if n%3 == 1 {
			props["N"] = "damaged"
		}
		if _, err := table.Insert(t.Context(), row("p", fmt.Sprint(n), props)); err != nil {
			t.Fatal(err)
		}
	}
	good := []int{0, 2, 3, 5, 6, 8}
	read := func(e tablestore.Entity) (int, error) { return e.Int("N"), nil }
	query := func(dst *[]int) tablestore.Query {
		return tablestore.Query{PartitionKey: "p", PageSize: 1, Class: tablestore.RowRange, Read: tablestore.Into(dst, read)}
	}
	var all []int
	for token := ""; ; { // one row a page: pages that are left without rows are no pages
		var page []int
		rows, next, err := table.Page(t.Context(), query(&page), token)
		if err != nil || len(rows) != len(page) || len(page) == 0 {
			t.Fatalf("%d rows, %d values, %v", len(rows), len(page), err)
		}
		if all = append(all, page...); next == "" {
			break
		}
		token = next
	}
	if diff := cmp.Diff(good, all); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	var first []int
	if rows, err := table.First(t.Context(), query(&first), 3); err != nil || len(rows) != 3 || !slices.Equal(first[:3], good[:3]) {
		t.Errorf("the first: %v, %v", first, err)
	}
	for _, err := range table.Query(t.Context(), tablestore.Query{PartitionKey: "p"}) {
		if err != nil {
			t.Errorf("who decodes nothing is refused nothing: %v", err)
		}
	}
	got, err := table.Get(t.Context(), "p", "1")
	if err == nil {
		_, err = tablestore.Decode(t.Context(), table, got, read)
	}
	if !errors.Is(err, tablestore.ErrUnreadable) {
		t.Errorf("one row: %v", err)
	}
	if want := 3 + 2 + 1; counted != want { // all pages, two pages of the first three, one row
		t.Errorf("counted %d, want %d", counted, want)
	}

	listed := func() (keys []string, rows []tablestore.Unreadable) {
		t.Helper()
		rows, next, err := unreadable.List(t.Context(), 10, "")
		if err != nil || next != "" {
			t.Fatal(next, err)
		}
		for _, r := range rows {
			keys = append(keys, r.Table+" "+r.PartitionKey+" "+r.RowKey)
			if r.Reason != "property N has type string, want int64" || time.Since(r.SeenAt) > time.Minute {
				t.Errorf("reported as %+v", r)
			}
		}
		slices.Sort(keys)
		return keys, rows
	}
	keys, rows := listed()
	if diff := cmp.Diff([]string{"rows p 1", "rows p 4", "rows p 7"}, keys); diff != "" {
		t.Fatalf("reported (-want +got):\n%s", diff)
	}
	for _, told := range rows {
		found, err := unreadable.Get(t.Context(), told.ID)
		if err != nil || found != told {
			t.Errorf("%+v, %v; want %+v", found, err, told)
		}
		switch told.RowKey {
		case "1":
			for range 2 {
				if err := unreadable.Delete(t.Context(), told); err != nil {
					t.Error(err)
				}
			}
		case "4": // mended since
			if _, err := table.Upsert(t.Context(), row("p", "4", map[string]any{"N": int32(4)})); err != nil {
				t.Fatal(err)
			}
			if err := unreadable.Delete(t.Context(), told); !errors.Is(err, tablestore.ErrChanged) {
				t.Errorf("a row that was mended: %v", err)
			}
		}
	}
	if keys, _ = listed(); len(keys) != 1 || keys[0] != "rows p 7" {
		t.Errorf("left: %q", keys)
	}
	all = nil
	if _, err := table.First(t.Context(), query(&all), 100); err != nil || !slices.Equal(all, []int{0, 2, 3, 4, 5, 6, 8}) {
		t.Errorf("in the end: %v, %v", all, err)
	}
	for _, id := range []string{"", "rows", "rows~", "~x", "rows~?", "rows~gone"} {
		if _, err := unreadable.Get(t.Context(), id); !errors.Is(err, tablestore.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A program that has not made the table of notes is told of each version in its log, once.
func TestUnreadableWithoutItsTable(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	table := tablestore.New(a, "rows")
	if _, err := table.Insert(t.Context(), row("p", "1", map[string]any{"N": "damaged"})); err != nil {
		t.Fatal(err)
	}
	ctx, counter := azstore.WithCounter(t.Context())
	for range 3 {
		rows, err := table.First(ctx, tablestore.Query{PartitionKey: "p", Read: func(e tablestore.Entity) error {
			_ = e.Int("N")
			return nil
		}}, 10)
		if err != nil || len(rows) != 0 {
			t.Errorf("%d rows, %v; want none", len(rows), err)
		}
	}
	if counter.Requests() != 3+1 {
		t.Errorf("%v, want 3 queries and one try to note the row", counter.Counts())
	}
}
