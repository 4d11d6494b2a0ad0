package rowstream_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
)

// memory is a List of ascending keys that counts its seeks.
type memory struct {
	keys  []string
	seeks int
}

func (m *memory) Seek(_ context.Context, from string) (*rowstream.Row[int], error) {
	m.seeks++
	i, _ := slices.BinarySearch(m.keys, from)
	if i == len(m.keys) {
		return nil, nil
	}
	return &rowstream.Row[int]{Key: m.keys[i]}, nil
}

func read(t rapid.TB, list rowstream.List[int]) []string {
	keys := []string{}
	for row, err := range rowstream.All(context.Background(), list, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key)
	}
	return keys
}

func TestUnionAndIntersectionAreThoseOfSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sets := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.IntRange(0, 40), rapid.ID[int]), 1, 5).Draw(t, "sets")
		var unions, intersections []rowstream.List[int]
		in := map[string]int{}
		for _, set := range sets {
			m := &memory{}
			for _, n := range set {
				key := fmt.Sprintf("%02d", n)
				m.keys = append(m.keys, key)
				in[key]++
			}
			slices.Sort(m.keys)
			unions, intersections = append(unions, m), append(intersections, &memory{keys: m.keys})
		}
		some, all := []string{}, []string{}
		for key, n := range in {
			some = append(some, key)
			if n == len(sets) {
				all = append(all, key)
			}
		}
		slices.Sort(some)
		slices.Sort(all)
		if diff := cmp.Diff(some, read(t, &rowstream.Union[int]{Lists: unions})); diff != "" {
			t.Errorf("union (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(all, read(t, &rowstream.Intersection[int]{Lists: intersections})); diff != "" {
			t.Errorf("intersection (-want +got):\n%s", diff)
		}
	})
}

// A key may be the beginning of the next.
func TestAllReadsKeysThatBeginAlike(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "a ", "a b", "a!", "a__b", "ab"}
	if diff := cmp.Diff(keys, read(t, &memory{keys: keys})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestIntersectionCostsAsMuchAsTheShortList(t *testing.T) {
	t.Parallel()
	for _, shortFirst := range []bool{true, false} {
		long, short := &memory{}, &memory{keys: []string{"00500", "07000", "09999"}}
		for n := range 10_000 {
			long.keys = append(long.keys, fmt.Sprintf("%05d", n))
		}
		lists := []rowstream.List[int]{long, short}
		if shortFirst {
			slices.Reverse(lists)
		}
		if got := read(t, &rowstream.Intersection[int]{Lists: lists}); len(got) != 3 {
			t.Errorf("got %q", got)
		}
		if long.seeks > 5 {
			t.Errorf("%d seeks in the long list for 3 rows, short list first: %v", long.seeks, shortFirst)
		}
	}
}
