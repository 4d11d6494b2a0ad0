package engine_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// rows counts what a table holds.
func rows(t *testing.T, a *azstore.Account, table string) (n int) {
	t.Helper()
	for _, err := range tablestore.New(a, table).Query(t.Context(), tablestore.Query{Class: tablestore.Scan}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// keyed opens an account with the tables of the store, twice: as it is, and with
// a function that runs before a request goes out.
func keyed(t *testing.T, before func(*http.Request) inject.Fault) (a *azstore.Account, calm, disturbed *enginetest.Store) {
	t.Helper()
	a = azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	return a, newStore(a, &outgoing{}), newStore(azuritetest.FaultyAccount(t, a, before), &outgoing{})
}

// A key leads to its sum as long as that lives, and afterwards to a new id,
// whatever the purge of the old one has done by then.
func TestKeyLeadsToTheSumWhileItLives(t *testing.T) {
	t.Parallel()
	a, s, _ := keyed(t, nil)
	ctx := t.Context()
	first, err := s.CreateOnce(ctx, "key", "body", awaiting())
	if err != nil {
		t.Fatal(err)
	}
	old := first.Subject.ID
	if again, err := s.CreateOnce(ctx, "key", "body", awaiting()); err != nil || again.Subject.ID != old {
		t.Errorf("repeated: %s, %v; want %s", again.Subject.ID, err, old)
	}
	if _, err := s.CreateOnce(ctx, "key", "other", awaiting()); !errors.Is(err, engine.ErrKeyUsed) {
		t.Errorf("another body: %v, want ErrKeyUsed", err)
	}
	if n := rows(t, a, declared.Table); n != 1 {
		t.Errorf("%d sums, want 1", n)
	}

	if _, err := s.Delete(ctx, old, ""); err != nil {
		t.Fatal(err)
	}
	second, err := s.CreateOnce(ctx, "key", "other", awaiting()) // under the tombstone
	if err != nil || second.Subject.ID == old {
		t.Fatalf("after the delete: %s, %v; want a new id", second.Subject.ID, err)
	}
	for range 2 { // the purge, and its duplicate
		if _, err := s.Erase(ctx, old, true); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := s.CreateOnce(ctx, "key", "other", awaiting()); err != nil || again.Subject.ID != second.Subject.ID {
		t.Errorf("the purge of the old sum cut the key of the new one: %s, %v; want %s", again.Subject.ID, err, second.Subject.ID)
	}

	if _, err := s.Delete(ctx, second.Subject.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Erase(ctx, second.Subject.ID, true); err != nil {
		t.Fatal(err)
	}
	for _, table := range enginetest.SumNames.Tables {
		want := 0
		if table == engine.InflightTable {
			want = 2 // what each purge leaves until its sweep
		}
		if n := rows(t, a, table); n != want {
			t.Errorf("%d rows are left in %s, want %d", n, table, want)
		}
	}
	third, err := s.CreateOnce(ctx, "key", "body", awaiting())
	if err != nil || third.Subject.ID == old || third.Subject.ID == second.Subject.ID {
		t.Errorf("after the purge: %s, %v; want a new id", third.Subject.ID, err)
	}
}

// Many repetitions at once, of a new key and of one whose sum is going, end
// with one sum; what the others made is going.
func TestRepetitionsAtOnceMakeOneSum(t *testing.T) {
	t.Parallel()
	a, s, _ := keyed(t, nil)
	var last engine.ID
	for round := range 3 {
		var mu sync.Mutex
		made := map[engine.ID]int{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				rec, err := s.CreateOnce(t.Context(), "key", "body", awaiting())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				made[rec.Subject.ID]++
			})
		}
		wg.Wait()
		if len(made) != 1 || made[last] != 0 {
			t.Fatalf("round %d made %v, want one new sum", round, made)
		}
		for last = range made {
		}
		if living := living(t, a); len(living) != 1 || living[0] != string(last) {
			t.Errorf("round %d: %v are there, want %s", round, living, last)
		}
		if _, err := s.Delete(t.Context(), last, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// living are the sums that are not being deleted.
func living(t *testing.T, a *azstore.Account) (ids []string) {
	t.Helper()
	for row, err := range tablestore.New(a, declared.Table).Query(t.Context(), tablestore.Query{Filter: "RowKey eq 'META' and State ne 'deleting'"}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.PartitionKey)
	}
	return ids
}

// A request that was not the first deletes what it made, also when its caller goes away
// meanwhile: as it finds the other's row, the caller's context ends.
func TestNotTheFirstCleansUpForACallerWhoIsGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first sync.Once
	var wins func()
	id := ""
	a, s, slow := keyed(t, func(r *http.Request) inject.Fault {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, engine.IdempotencyTable):
			first.Do(wins)
		case strings.HasSuffix(r.URL.Path, "$batch"): // the tombstone
			cancel()
		}
		return inject.None
	})
	wins = func() {
		winner, err := s.CreateOnce(t.Context(), "key", "body", awaiting())
		if err != nil {
			t.Error(err)
		}
		id = string(winner.Subject.ID)
	}
	if rec, err := slow.CreateOnce(ctx, "key", "body", awaiting()); err != nil || string(rec.Subject.ID) != id {
		t.Errorf("got %s, %v; want the winner's %s", rec.Subject.ID, err, id)
	}
	if ctx.Err() == nil {
		t.Error("the caller was there until the end")
	}
	if living := living(t, a); len(living) != 1 || living[0] != id {
		t.Errorf("%v are there, want the winner's", living)
	}
}

// A request that dies between the sum and the row of the key is repeated, and
// makes another sum: the id of the first is unknown.
func TestCreateThatDiesIsRepeated(t *testing.T) {
	t.Parallel()
	_, s, dying := keyed(t, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, engine.IdempotencyTable) {
			return inject.ServerBusy
		}
		return inject.None
	})
	v := awaiting()
	if _, err := dying.CreateOnce(t.Context(), "key", "body", v); err == nil {
		t.Fatal("the fault was not made")
	}
	if _, err := s.Get(t.Context(), v.ID); err != nil {
		t.Errorf("the sum is not there: %v", err)
	}
	rec, err := s.CreateOnce(t.Context(), "key", "body", awaiting())
	if err != nil || rec.Subject.ID == v.ID {
		t.Errorf("repeated: %s, %v; want a new id", rec.Subject.ID, err)
	}
	marks, err := inflight(t, s)
	if err != nil || len(marks) != 2 {
		t.Errorf("%d marks, %v; want both, for the reconciler", len(marks), err)
	}
}

// The purge removes a tombstone only, and only as it was read.
func TestEraseLeavesLivingSumsAlone(t *testing.T) {
	t.Parallel()
	var once sync.Once
	var meanwhile func()
	_, s, slow := keyed(t, func(r *http.Request) inject.Fault {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "META") {
			once.Do(meanwhile)
			if r.Header.Get("If-Match") == "*" {
				t.Error("META is deleted whatever it is")
			}
		}
		return inject.None
	})
	id := uploaded(t, s)
	if claimed, err := s.Erase(t.Context(), id, true); err != nil || claimed {
		t.Errorf("Erase of a living sum = %t, %v", claimed, err)
	}
	if rec, err := s.Get(t.Context(), id); err != nil || rec.Subject.State != engine.Uploaded {
		t.Fatalf("it was erased: %+v, %v", rec, err)
	}
	if _, err := s.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	meanwhile = func() { // the tombstone is written once more
		_, err := s.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
			v.Title = "going"
			return []engine.OutboxMessage{declared.RemoveMessage()}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := slow.Erase(t.Context(), id, true); !errors.Is(err, tablestore.ErrChanged) {
		t.Fatalf("META changed meanwhile: %v", err)
	}
	if _, err := slow.Erase(t.Context(), id, true); err != nil { // the next delivery
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("after the erase: %v, want ErrNotFound", err)
	}
}
