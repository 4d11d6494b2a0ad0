package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestClicksAreReadTogether(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	var out strings.Builder
	if err := run(t.Context(), account, &out); err != nil {
		t.Fatal(err)
	}
	if want := "click 00042 was visitor 0\n00047 5\n00048 6\n00049 0\n"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
	clicks, partitions := tablestore.New(account, "hotkey"), map[string]int{}
	for row, err := range clicks.Query(t.Context(), tablestore.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		partitions[row.PartitionKey]++
	}
	if len(partitions) != parts {
		t.Errorf("the rows are spread so: %v, want %d partitions", partitions, parts)
	}
	page, _, _ := strings.Cut(slices.Collect(maps.Keys(partitions))[0], tablestore.Separator)
	var keys []string
	for click, err := range rowstream.All(t.Context(), together(clicks, page), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, click.Key)
	}
	if len(keys) != 50 || !slices.IsSorted(keys) || len(slices.Compact(keys)) != 50 {
		t.Errorf("read together: %q", keys)
	}
}
