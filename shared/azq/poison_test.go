package azq_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

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
	if n := length(t, q); n != 0 {
		t.Errorf("%d messages are left", n)
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
	if err := qs.Redrive(t.Context(), p.ID); err != nil {
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
	err = qs.Redrive(t.Context(), p.ID)
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
	if err := qs.Redrive(t.Context(), list[0].ID); err != nil {
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
	if list, _, err := qs.ListPoison(t.Context(), 10, ""); err != nil || len(list) != 0 {
		t.Errorf("%d items after discarding, %v", len(list), err)
	}
}

// A crash after the row and before the delete repeats the burial: one entry.
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
	if err != nil || len(list) != 1 || length(t, q) != 0 {
		t.Errorf("%d rows, %d messages, %v; want 1, 0", len(list), length(t, q), err)
	}
}

// An operator sees the row as soon as it is written, and redrives while the worker is
// still deleting the message. No row of what is worked on again stays.
func TestRedriveWhileItIsPoisoned(t *testing.T) {
	t.Parallel()
	var operator *azq.Client
	var redriven atomic.Int32
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if messageCall(http.MethodDelete)(r) && redriven.Add(1) == 1 {
			seen, _, err := operator.ListPoison(t.Context(), 10, "")
			if err != nil || len(seen) != 1 {
				t.Errorf("the operator sees %d items, %v", len(seen), err)
				return inject.None
			}
			if err := operator.Redrive(t.Context(), seen[0].ID); err != nil {
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
	if n := length(t, q); err != nil || len(left) != 0 || n != 1 || redriven.Load() != 1 {
		t.Errorf("%d rows and %d messages are left after %d redrives, %v; want the redriven message", len(left), n, redriven.Load(), err)
	}
}
