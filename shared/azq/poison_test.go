package azq_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func copies(t *testing.T, a *azstore.Account) int64 {
	t.Helper()
	got, err := a.Queue(azq.PoisonName(jobs)).GetProperties(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return *got.ApproximateMessagesCount
}

func TestPoisonAndRedrive(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs, q := open(t, a, 30*time.Second)
	item := itemWith(t, "v/g1/encode/4", map[string]int{"index": 4})
	item.Failures = 4
	sendItem(t, q, item)
	lease := receive(t, q)
	last := func(i *azq.Item) { i.Fail(time.Now(), "w1", errors.New("disk full")) }
	if err := lease.Poison(t.Context(), "five failures", last); err != nil {
		t.Fatal(err)
	}
	if n, c := length(t, q), copies(t, a); n != 0 || c != 1 {
		t.Errorf("%d messages and %d copies, want 0 and 1", n, c)
	}

	list, next, err := qs.ListPoison(t.Context(), 10, "")
	if err != nil || len(list) != 1 || next != "" {
		t.Fatalf("ListPoison = %d items, %q, %v", len(list), next, err)
	}
	p := list[0]
	if p.Queue != jobs || p.Reason != "five failures" || p.ItemID != item.ID || p.Subject != item.Subject || p.Kind != "encode" ||
		p.Failures != 5 || p.DequeueCount != 1 || !strings.Contains(p.History, "w1 disk full") || time.Since(p.PoisonedAt) > time.Minute {
		t.Errorf("poisoned item: %+v", p)
	}
	<-q.Woken() // of the send above
	if _, err := qs.Redrive(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-q.Woken():
	default:
		t.Error("no consumer was woken")
	}
	again, err := receive(t, q).Open(t.Context())
	if err != nil || again.ID != item.ID || again.Failures != 0 || again.LastError != "" || again.History != "" {
		t.Errorf("redriven item: %+v, %v", again, err)
	}
	if c := copies(t, a); c != 0 {
		t.Errorf("%d copies are left", c)
	}
	_, err = qs.Redrive(t.Context(), p.ID)
	wantIs(t, "Redrive again", err, azq.ErrNoPoison)
	_, err = qs.GetPoison(t.Context(), `../x`)
	wantIs(t, "GetPoison", err, azq.ErrNoPoison)
}

// What cannot be read is kept as it came.
func TestMalformedMessageIsKeptAsItCame(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs, q := open(t, a, 30*time.Second)
	text := strings.Repeat("not an item ", 5_000) // 60 KB
	if _, err := a.Queue(jobs).EnqueueMessage(t.Context(), text, nil); err != nil {
		t.Fatal(err)
	}
	lease := receive(t, q)
	_, err := lease.Open(t.Context())
	wantIs(t, "Open", err, azq.ErrMalformed)
	if err := lease.Poison(t.Context(), err.Error(), nil); err != nil {
		t.Fatal(err)
	}
	list, _, err := qs.ListPoison(t.Context(), 10, "")
	if err != nil || len(list) != 1 || string(list[0].Text) != text {
		t.Fatalf("ListPoison = %d items, %v", len(list), err)
	}
	if _, err := qs.Redrive(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	seen, err := q.Peek(t.Context(), 1)
	if err != nil || len(seen) != 1 || seen[0].Text != text {
		t.Errorf("after the redrive: %d messages, %v", len(seen), err)
	}
	lease = receive(t, q)
	if err := lease.Poison(t.Context(), "again", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := qs.DiscardPoison(t.Context(), jobs+"~"+lease.MessageID); err != nil {
			t.Fatal(err)
		}
	}
	if list, _, err := qs.ListPoison(t.Context(), 10, ""); err != nil || len(list) != 0 || copies(t, a) != 0 {
		t.Errorf("%d items and %d copies after discarding, %v", len(list), copies(t, a), err)
	}
}

// A redrive that read the row before the worker added its copy is no redrive of two at once:
// it goes on with the row as it is.
func TestRedriveOfARowThatChanges(t *testing.T) {
	t.Parallel()
	read, buried := make(chan bool), make(chan bool)
	var copied, claimed sync.Once
	worker := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, azq.PoisonName(jobs)+"/messages") {
			copied.Do(func() { <-read })
		}
		return inject.None
	}}
	operator := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, azq.PoisonTable+"(") {
			claimed.Do(func() { close(read); <-buried })
		}
		return inject.None
	}}
	same := azuritetest.Account(t)
	by := func(transport *inject.Transport) (*azq.Client, *azq.Queue) {
		return open(t, azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = same.Prefix(), transport }), 30*time.Second)
	}
	_, q := by(worker)
	qs, _ := by(operator)
	sendItem(t, q, itemWith(t, "v/g1/encode/4", nil))
	lease := receive(t, q)
	go func() {
		defer close(buried)
		if err := lease.Poison(t.Context(), "five failures", nil); err != nil {
			t.Error(err)
		}
	}()
	azuritetest.Eventually(t, 20*time.Second, func() error {
		_, err := qs.GetPoison(t.Context(), jobs+"~"+lease.MessageID)
		return err
	})
	if _, err := qs.Redrive(t.Context(), jobs+"~"+lease.MessageID); err != nil {
		t.Error(err)
	}
	left, _, err := qs.ListPoison(t.Context(), 10, "")
	if n, c := length(t, q), copies(t, same); err != nil || len(left) != 0 || c != 0 || n != 1 {
		t.Errorf("%d rows, %d copies and %d messages are left, %v; want the redriven message", len(left), c, n, err)
	}
}

// A crash after the copy and before the delete repeats the burial: one entry.
func TestBurialIsRepeatableAndLeavesOneEntry(t *testing.T) {
	t.Parallel()
	// The delete is refused for good, as if the worker had died before it.
	bad, good, faults := faulty(t, inject.None, 0, messageCall(http.MethodDelete))
	faults.Choose = func(r *http.Request) inject.Fault {
		if messageCall(http.MethodDelete)(r) {
			return inject.Reset
		}
		return inject.None
	}
	qs, q := open(t, good, time.Second)
	_, dying := open(t, bad, time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	ctx, cancel := contextWithin(t, 500*time.Millisecond)
	defer cancel()
	if err := receive(t, dying).Poison(ctx, "bad", nil); err == nil {
		t.Fatal("Poison succeeded without a delete")
	}
	if err := receive(t, q).Poison(t.Context(), "bad", nil); err != nil {
		t.Fatal(err)
	}
	list, _, err := qs.ListPoison(t.Context(), 10, "")
	if err != nil || len(list) != 1 || copies(t, good) != 1 || length(t, q) != 0 {
		t.Errorf("%d rows, %d copies, %d messages, %v; want 1, 1, 0", len(list), copies(t, good), length(t, q), err)
	}
}

// An operator sees the row as soon as it is written, and redrives while the worker is
// still sending the copy. Neither row nor copy of what is worked on again stays.
func TestRedriveWhileItIsPoisoned(t *testing.T) {
	t.Parallel()
	var operator *azq.Client
	var redriven atomic.Int32
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, azq.PoisonName(jobs)+"/messages") && redriven.Add(1) == 1 {
			seen, _, err := operator.ListPoison(t.Context(), 10, "")
			if err != nil || len(seen) != 1 {
				t.Errorf("the operator sees %d items, %v", len(seen), err)
				return inject.None
			}
			if _, err := operator.Redrive(t.Context(), seen[0].ID); err != nil {
				t.Errorf("redrive: %v", err)
			}
		}
		return inject.None
	}}
	same := azuritetest.Account(t)
	a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = same.Prefix(), faults })
	operator, _ = open(t, same, 30*time.Second)
	_, q := open(t, a, 30*time.Second)
	sendItem(t, q, itemWith(t, "v/g1/encode/4", map[string]int{"index": 4}))
	if err := receive(t, q).Poison(t.Context(), "five failures", nil); err != nil {
		t.Fatal(err)
	}
	left, _, err := operator.ListPoison(t.Context(), 10, "")
	if n, c := length(t, q), copies(t, a); err != nil || len(left) != 0 || c != 0 || n != 1 || redriven.Load() != 1 {
		t.Errorf("%d rows, %d copies and %d messages are left after %d redrives, %v; want the redriven message", len(left), c, n, redriven.Load(), err)
	}
}

// An operator discards an item whose copy a worker adds meanwhile. Neither row nor copy stays.
func TestDiscardWhileItIsPoisoned(t *testing.T) {
	t.Parallel()
	read, poisoned := make(chan struct{}), make(chan struct{})
	waiting := func(method, path string, before, after chan struct{}) func(*azstore.Config) {
		var once sync.Once
		return func(c *azstore.Config) {
			c.Transport = &inject.Transport{Choose: func(r *http.Request) inject.Fault {
				if r.Method == method && strings.Contains(r.URL.Path, path) {
					once.Do(func() {
						if before != nil {
							close(before)
						}
						<-after
					})
				}
				return inject.None
			}}
		}
	}
	same := azuritetest.Account(t)
	prefixed := func(change func(*azstore.Config)) *azstore.Account {
		return azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix = same.Prefix(); change(c) })
	}
	_, q := open(t, prefixed(waiting(http.MethodPost, azq.PoisonName(jobs)+"/messages", nil, read)), 30*time.Second)
	operator, _ := open(t, prefixed(waiting(http.MethodDelete, azq.PoisonTable, read, poisoned)), 30*time.Second)
	sendItem(t, q, itemWith(t, "v/g1/encode/4", map[string]int{"index": 4}))
	lease := receive(t, q)
	go func() {
		defer close(poisoned)
		if err := lease.Poison(t.Context(), "five failures", nil); err != nil {
			t.Error(err)
		}
	}()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		seen, _, err := operator.ListPoison(t.Context(), 10, "")
		if err == nil && len(seen) != 1 {
			err = fmt.Errorf("the operator sees %d items", len(seen))
		}
		if err != nil {
			return err
		}
		return operator.DiscardPoison(t.Context(), seen[0].ID)
	})
	left, _, err := operator.ListPoison(t.Context(), 10, "")
	if c := copies(t, same); err != nil || len(left) != 0 || c != 0 {
		t.Errorf("%d rows and %d copies are left, %v", len(left), c, err)
	}
}
