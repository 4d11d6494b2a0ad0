package duplicates_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/duplicates"
	"github.com/cutroom/cutroom/shared/engine"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestTheFirstOneStaysFirstWhileItLives(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{duplicates.Table}}); err != nil {
		t.Fatal(err)
	}
	x := duplicates.New(a)
	gone := map[engine.ID]bool{}
	first := func(id engine.ID) engine.ID {
		t.Helper()
		got, err := x.First(t.Context(), id, duplicates.SameFile(strings.Repeat("ab", 32), 7), func(_ context.Context, id engine.ID) (bool, error) {
			return !gone[id], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	one, two, three := engine.NewID(), engine.NewID(), engine.NewID()
	for _, c := range []struct{ asks, want engine.ID }{{one, one}, {two, one}, {one, one}, {two, one}} {
		if got := first(c.asks); got != c.want {
			t.Errorf("%s: the first is %s, want %s", c.asks, got, c.want)
		}
	}
	gone[one] = true // and its purge has not come to the table yet
	if got := first(two); got != two {
		t.Errorf("after the first is gone: %s, want the second", got)
	}
	for range 2 { // the late purge takes nothing from the second
		if err := x.Remove(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if got := first(three); got != two {
		t.Errorf("after the purge: %s, want the second", got)
	}
	if err := x.Remove(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if got := first(three); got != three {
		t.Errorf("after all are purged: %s, want the third", got)
	}
}

// Of any number that come at once exactly one is the first.
func TestOneIsFirst(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{duplicates.Table}}); err != nil {
		t.Fatal(err)
	}
	x := duplicates.New(a)
	var mu sync.Mutex
	var wg sync.WaitGroup
	found := map[engine.ID]int{}
	for range 8 {
		wg.Go(func() {
			id, err := x.First(t.Context(), engine.NewID(), duplicates.SameLook("00ff", 12), func(context.Context, engine.ID) (bool, error) { return true, nil })
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[id]++
		})
	}
	wg.Wait()
	if len(found) != 1 {
		t.Errorf("%d are first: %v", len(found), found)
	}
}
