package views

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

var today = time.Date(2026, 11, 20, 18, 30, 0, 0, time.UTC)

// opener opens another counter of the same table, which storage treats badly.
type opener func(faults *inject.Transport, retry azstore.Retry) *Counter

// open makes a counter on a table of the test's own.
func open(t *testing.T) (c *Counter, faulty opener) {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{Table}}); err != nil {
		t.Fatal(err)
	}
	return New(account), func(faults *inject.Transport, retry azstore.Retry) *Counter {
		return New(azuritetest.AccountWith(t, func(cfg *azstore.Config) {
			cfg.Prefix, cfg.Transport, cfg.Retry = account.Prefix(), faults, retry
		}))
	}
}

func always(context.Context, engine.ID) (bool, error) { return true, nil }

func (c *Counter) mustCount(t *testing.T, id engine.ID, at time.Time, times int) {
	t.Helper()
	for range times {
		if err := c.Count(t.Context(), id, at); err != nil {
			t.Fatal(err)
		}
	}
}

// rows dumps the table: partition and row to views.
func (c *Counter) rows(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for row, err := range c.table.Query(t.Context(), tablestore.Query{Class: tablestore.Scan}) {
		if err != nil {
			t.Fatal(err)
		}
		all[row.PartitionKey+" "+row.RowKey] = row.Int64("Views")
	}
	return all
}

// TestEveryViewCounts: many at once lose none, and they are spread over the
// suffixes (S2). Reading costs the same however many there were.
func TestEveryViewCounts(t *testing.T) {
	t.Parallel()
	c, _ := open(t)
	id, other := engine.NewID(), engine.NewID()
	const viewers, each = 8, 25
	var wg sync.WaitGroup
	for range viewers {
		wg.Go(func() {
			for range each {
				if err := c.Count(t.Context(), id, today); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c.mustCount(t, other, today, 1)
	got, err := c.Views(t.Context(), id)
	want := Views{Total: viewers * each, Days: []Day{{today.Format(dayFormat), viewers * each}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("views: %v\n%s", err, diff)
	}
	if n := len(c.rows(t)); n < 2+6 { // the day, the other video and, of 200 views at random, nearly all suffixes
		t.Errorf("%d rows: the views are not spread", n)
	}
	ctx, meter := azstore.WithCounter(t.Context())
	if _, err := c.Views(ctx, id); err != nil || meter.Requests() != 2+Shards || meter.ByClass(tablestore.RowRange) != 2 {
		t.Errorf("reading took %d requests, %d of them row ranges; error %v", meter.Requests(), meter.ByClass(tablestore.RowRange), err)
	}
}

// TestUnclearTryAtABusyRowCountsOnce: the first try had no answer, and others swapped the row
// before the second. If only the answer was lost, the view was counted; if the try never
// arrived, it was not. Found behind the partition model (T10).
func TestUnclearTryAtABusyRowCountsOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]inject.Fault{"the reply was lost": inject.LostReply, "it never arrived": inject.Reset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others, faulty := open(t)
			id := engine.NewID()
			swap := func(views string) {
				for n := range Shards {
					if err := others.add(t.Context(), shardKey(today.Format(dayFormat), n+1), id, fmt.Sprint(views, n)); err != nil {
						t.Error(err)
					}
				}
			}
			others.mustCount(t, id, today, 1) // the day has its row
			swap("first")                     // and every suffix
			faults := &inject.Transport{Choose: inject.Once(fault, 1, func(r *http.Request) bool { return r.Method == http.MethodPut })}
			c := faulty(faults, azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: 2 * time.Second})
			c.days.Store(today.Format(dayFormat), struct{}{})
			done := make(chan error, 1)
			go func() { done <- c.Count(t.Context(), id, today) }()
			azuritetest.Eventually(t, 10*time.Second, func() error {
				if faults.Fired() == 0 {
					return errors.New("no try failed yet")
				}
				return nil
			})
			swap("later")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got, err := others.Views(t.Context(), id); err != nil || got.Total != 2+2*Shards {
				t.Errorf("%d views are counted as %d, error %v", 2+2*Shards, got.Total, err)
			}
		})
	}
}

// TestLostReplyCountsOnce: the view was counted, the answer was lost (Q13).
func TestLostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	_, faulty := open(t)
	// The reply of every other write is lost.
	var writes atomic.Int64
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method != http.MethodGet && writes.Add(1)%2 == 1 {
			return inject.LostReply
		}
		return inject.None
	}}
	c := faulty(faults, azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: 10 * time.Millisecond})
	id := engine.NewID()
	c.mustCount(t, id, today, 10)
	if got, err := c.Views(t.Context(), id); err != nil || got.Total != 10 {
		t.Errorf("10 views are counted as %d, error %v", got.Total, err)
	}
	if faults.Fired() < 6 {
		t.Errorf("only %d replies were lost", faults.Fired())
	}
}

// fill counts views of three videos on three days and returns what Of must say
// once the first two days are closed, and now.
func fill(t *testing.T, c *Counter) (ids []engine.ID, want []Views) {
	t.Helper()
	for i := range 3 {
		id := engine.NewID()
		ids = append(ids, id)
		var v Views
		for ago := range 3 {
			n := 1 + (i*7+ago*5)%4
			at := today.AddDate(0, 0, -ago)
			c.mustCount(t, id, at, n)
			v.Total += int64(n)
			v.Days = append(v.Days, Day{at.Format(dayFormat), int64(n)})
		}
		want = append(want, v)
	}
	return ids, want
}

// TestKilledRollUp breaks the roll-up at every request; the next one ends with
// the same sums, and reading is right in between.
func TestKilledRollUp(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	for _, fault := range []inject.Fault{inject.Reset, inject.LostReply} {
		for at := 0; ; at += 4 { // every fourth request: each kind has its turn
			c, faulty := open(t)
			ids, want := fill(t, c)
			dying := faulty(&inject.Transport{Choose: inject.DiesAt(at, fault)}, azstore.Retry{Strategy: azstore.NoRetry})
			killed := dying.RollUp(t.Context(), today, always) != nil
			check := func(when string) {
				for i, id := range ids {
					got, err := c.Views(t.Context(), id)
					if diff := cmp.Diff(want[i], got); err != nil || diff != "" {
						t.Fatalf("fault %v at request %d, %s: %v\n%s", fault, at, when, err, diff)
					}
				}
			}
			check("after the kill")
			for range 2 {
				if err := c.RollUp(t.Context(), today, always); err != nil {
					t.Fatal(err)
				}
			}
			check("after the next roll-up")
			if days, err := c.openDays(t.Context()); err != nil || len(days) != 1 {
				t.Fatalf("open days %v, error %v; only today is open", days, err)
			}
			if !killed {
				break
			}
		}
	}
}

// TestRollUpsAtOnce: two roll-ups at once, and a day that has just ended stays open.
func TestRollUpsAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := open(t)
	ids, want := fill(t, c)
	early := today.Truncate(24 * time.Hour).Add(closeAfter - time.Second)
	if err := c.RollUp(t.Context(), early, always); err != nil {
		t.Fatal(err)
	}
	if days, err := c.openDays(t.Context()); err != nil || len(days) != 2 {
		t.Errorf("open days %v, error %v; want today and, within the hour, yesterday", days, err)
	}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = c.RollUp(t.Context(), today, always) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	for i, id := range ids {
		if got, err := c.Views(t.Context(), id); err != nil || !cmp.Equal(want[i], got) {
			t.Errorf("views %+v, error %v, want %+v", got, err, want[i])
		}
	}
}

// TestNothingIsLeft: of removed videos nothing stays, and a roll-up does not
// write about one that is purged, before or while it runs.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	c, _ := open(t)
	ids, _ := fill(t, c)
	if err := c.RollUp(t.Context(), today, always); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		for range 2 {
			if err := c.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked := map[engine.ID]int{}
	var mu sync.Mutex
	gone, going := engine.NewID(), engine.NewID()
	c.mustCount(t, gone, today, 3)
	c.mustCount(t, going, today, 3)
	err := c.RollUp(t.Context(), today.AddDate(0, 0, 1), func(_ context.Context, id engine.ID) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[id]++
		return id == going && asked[id] == 1, nil // purged after the first look
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows := c.rows(t); len(rows) != 0 {
		t.Errorf("rows are left: %v", rows)
	}
	if asked[going] != 2 {
		t.Errorf("the roll-up looked %d times whether the video is there, want before and after", asked[going])
	}
}

// TestNewestDaysFirst: only the newest 30 are shown, all are in the sum.
func TestNewestDaysFirst(t *testing.T) {
	t.Parallel()
	c, _ := open(t)
	id := engine.NewID()
	for ago := range 40 {
		c.mustCount(t, id, today.AddDate(0, 0, -ago), 1)
	}
	for range 2 {
		got, err := c.Views(t.Context(), id)
		if err != nil || got.Total != 40 || len(got.Days) != daysShown {
			t.Fatalf("%d views on %d days, error %v", got.Total, len(got.Days), err)
		}
		for i, d := range got.Days {
			if want := fmt.Sprint(today.AddDate(0, 0, -i).Format(dayFormat)); d.Date != want {
				t.Fatalf("day %d is %s, want %s", i, d.Date, want)
			}
		}
		if err := c.RollUp(t.Context(), today, always); err != nil {
			t.Fatal(err)
		}
	}
}
