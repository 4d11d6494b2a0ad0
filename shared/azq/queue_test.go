package azq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// open creates one queue with the given visibility.
func open(t *testing.T, a *azstore.Account, visibility time.Duration) (*azq.Client, *azq.Queue) {
	t.Helper()
	qs := azq.Open(a, azq.Options{Queues: []azq.Spec{{Name: jobs, Pool: "light", Visibility: visibility, Weight: 1, MaxIdlePoll: time.Second, MaxFailures: 5}}})
	if err := qs.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return qs, qs.Queue(jobs)
}

func itemWith(t *testing.T, id string, data any) azq.Item {
	t.Helper()
	item, err := azq.NewItem("encode", "subject-"+id[:1], id, data)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func sendItem(t *testing.T, q *azq.Queue, item azq.Item) {
	t.Helper()
	if err := q.Send(t.Context(), item, 0, 0); err != nil {
		t.Fatal(err)
	}
}

// receive polls until a message comes.
func receive(t *testing.T, q *azq.Queue) *azq.Lease {
	t.Helper()
	var lease *azq.Lease
	azuritetest.Eventually(t, 15*time.Second, func() error {
		got, err := q.Receive(t.Context(), 1)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			return errors.New("no message")
		}
		lease = got[0]
		return nil
	})
	return lease
}

func length(t *testing.T, q *azq.Queue) int64 {
	t.Helper()
	s, err := q.Length(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Length
}

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%s: err = %v, want %v", what, err, target)
	}
}

// Q3, Q9, Q19: whatever bytes go in come out, also those that XML does not have, and the
// message waits for ever.
func TestBinaryPayloadsSurvive(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), 30*time.Second)
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	type payload struct {
		Binary []byte `json:"binary"`
		Text   string `json:"text"`
	}
	want := payload{binary, "é\x00\x1f<&>\U0001F3AC\u2028\uffff"}
	sendItem(t, q, itemWith(t, "x", want))

	seen, err := q.Peek(t.Context(), 5)
	if err != nil || len(seen) != 1 {
		t.Fatalf("Peek = %d messages, %v", len(seen), err)
	}
	if _, err := base64.StdEncoding.DecodeString(seen[0].Text); err != nil {
		t.Errorf("the message is not base64: %v", err)
	}
	if seen[0].Expires.Year() < 9999 {
		t.Errorf("message expires %v, want never", seen[0].Expires)
	}
	lease := receive(t, q)
	item, err := lease.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := azq.DecodeData[payload](item)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payload (-sent +received):\n%s", diff)
	}
	if err := lease.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := length(t, q); n != 0 {
		t.Errorf("%d messages are left", n)
	}
	encodesOthers(t)
}

// encodesOthers encodes what stays plain JSON, because it came so, and what only base64 makes too
// large.
func encodesOthers(t *testing.T) {
	t.Helper()
	plain, err := azq.DecodeItem(`{"specversion":"1.0","type":"azq.work.x.v1","id":"a","source":"/a","data":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := plain.Encode(); err != nil || !strings.HasPrefix(text, "{") {
		t.Errorf("an item that came as plain JSON becomes %q, %v", text, err)
	}
	if text, err := itemWith(t, "x", strings.Repeat("a", 50<<10)).Encode(); !errors.Is(err, azq.ErrTooLarge) {
		t.Errorf("50 KiB become a message of %d bytes, %v", len(text), err)
	}
}

// Q9: data too large for a message travels as a claim check.
func TestLargeDataIsAClaimCheck(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), 30*time.Second)
	want := strings.Repeat("0123456789", 6_000) // 60 KB
	item := itemWith(t, "v/g1/large", want)
	sendItem(t, q, item)

	seen, err := q.Peek(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen[0].Text) > 2_000 {
		t.Errorf("the message is %d bytes, want a small one", len(seen[0].Text))
	}
	lease := receive(t, q)
	if err := lease.Release(t.Context(), 0, func(i *azq.Item) { i.Fail(time.Now(), "w", errors.New("once")) }); err != nil {
		t.Fatal(err)
	}
	got, err := receive(t, q).Open(t.Context()) // the claim check is still good
	if err != nil {
		t.Fatal(err)
	}
	if data, err := azq.DecodeData[string](got); err != nil || data != want {
		t.Errorf("got %d bytes, %v; want %d", len(data), err, len(want))
	}
	if got.DataRef != item.Subject+"/encode/v/g1/large" || got.Failures != 1 {
		t.Errorf("DataRef = %q, Failures = %d", got.DataRef, got.Failures)
	}
}

// A claim check may only name a blob of its own subject.
func TestForeignClaimCheckIsMalformed(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), 30*time.Second)
	for _, ref := range []string{"another-video/secret", "never-written"} {
		item := itemWith(t, "x", nil)
		item.DataRef = ref
		if ref == "never-written" {
			item.DataRef = item.Subject + "/" + ref
		}
		sendItem(t, q, item)
		_, err := receive(t, q).Open(t.Context())
		wantIs(t, ref, err, azq.ErrMalformed)
	}
}

// Q17: 400 PopReceiptMismatch, the message is with another consumer.
func TestStaleReceiptOfATakenMessage(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	stale, other := receive(t, q), receive(t, q) // the second comes when the first's visibility ends

	err := stale.Complete(t.Context())
	wantIs(t, "Complete", err, azq.ErrLeaseLost)
	if !azstore.HasCode(err, "PopReceiptMismatch") {
		t.Errorf("the storage code is gone: %v", err)
	}
	wantIs(t, "Complete again", stale.Complete(t.Context()), azq.ErrLeaseLost)
	if err := other.Complete(t.Context()); err != nil {
		t.Errorf("the owner cannot delete: %v", err)
	}
}

// Q17 for a renewal and for giving back.
func TestStaleReceiptOnRenewalAndRelease(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	stale, second, owner := receive(t, q), receive(t, q), receive(t, q)
	wantIs(t, "Renew", stale.Renew(t.Context(), nil), azq.ErrLeaseLost)
	wantIs(t, "Release", second.Release(t.Context(), 0, nil), azq.ErrLeaseLost)
	if err := owner.Renew(t.Context(), nil); err != nil {
		t.Errorf("the owner cannot renew: %v", err)
	}
}

// Q17: 404 MessageNotFound, another consumer has finished it.
func TestStaleReceiptOfAFinishedMessage(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	first, second, owner := receive(t, q), receive(t, q), receive(t, q)
	if err := owner.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := first.Complete(t.Context())
	wantIs(t, "Complete", err, azq.ErrLeaseLost)
	if !azstore.HasCode(err, "MessageNotFound") {
		t.Errorf("the storage code is gone: %v", err)
	}
	wantIs(t, "Renew", second.Renew(t.Context(), nil), azq.ErrLeaseLost)
}

func TestRenewalHidesLongerAndKeepsTheText(t *testing.T) {
	t.Parallel()
	_, q := open(t, azuritetest.Account(t), 2*time.Second)
	sendItem(t, q, itemWith(t, "x", "payload"))
	lease := receive(t, q)
	first := lease.Deadline()
	for time.Now().Before(first.Add(time.Second)) {
		if err := lease.Renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := q.Receive(t.Context(), 1); err != nil || len(got) != 0 {
			t.Fatalf("a leased message was given to another consumer: %v, %v", got, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := lease.Release(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	item, err := receive(t, q).Open(t.Context())
	if err != nil || string(item.Data) != `"payload"` {
		t.Errorf("after renewals the data is %s, %v", item.Data, err)
	}
}

// faulty returns two accounts with the same names: one whose requests meet the
// fault, and a sound one.
func faulty(t *testing.T, fault inject.Fault, n int, match func(*http.Request) bool) (bad, good *azstore.Account, faults *inject.Transport) {
	t.Helper()
	good = azuritetest.Account(t)
	faults = &inject.Transport{Choose: inject.Once(fault, n, match)}
	bad = azuritetest.AccountWith(t, func(c *azstore.Config) {
		c.Prefix = good.Prefix()
		c.Transport = faults
	})
	return bad, good, faults
}

func messageCall(method string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && strings.Contains(r.URL.Path, jobs+"/messages")
	}
}

func wantFired(t *testing.T, f *inject.Transport, n int) {
	t.Helper()
	if f.Fired() != n {
		t.Errorf("%d faults fired, want %d: the test has shown nothing", f.Fired(), n)
	}
}

// Q13: the renewal arrived and its reply did not. Our receipt is gone, but so is
// everybody's: the lease runs to its new end and work that fits is finished.
func TestLostRenewalReply(t *testing.T) {
	t.Parallel()
	bad, good, faults := faulty(t, inject.LostReply, 1, messageCall(http.MethodPut))
	_, sender := open(t, good, 3*time.Second)
	_, q := open(t, bad, 3*time.Second)
	sendItem(t, sender, itemWith(t, "x", nil))
	lease := receive(t, q)
	before := lease.Deadline()

	wantIs(t, "Renew", lease.Renew(t.Context(), nil), azq.ErrReceiptLost)
	wantFired(t, faults, 1)
	if !lease.Deadline().After(before) {
		t.Errorf("deadline stays at %v", before)
	}
	wantIs(t, "Complete", lease.Complete(t.Context()), azq.ErrReceiptLost)
	if got, err := sender.Receive(t.Context(), 1); err != nil || len(got) != 0 {
		t.Errorf("another consumer has it before the deadline: %d, %v", len(got), err)
	}
	if again := receive(t, sender); again.DequeueCount != 2 || time.Now().Before(lease.Deadline()) {
		t.Errorf("it came back before the deadline, or not as the second delivery")
	}
}

// A renewal that never arrived is simply repeated.
func TestRenewalSurvivesResetsAndServerBusy(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]inject.Fault{"reset": inject.Reset, "busy": inject.ServerBusy, "timed out": inject.TimedOut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, _, faults := faulty(t, fault, 2, messageCall(http.MethodPut))
			_, q := open(t, bad, 10*time.Second)
			sendItem(t, q, itemWith(t, "x", nil))
			lease := receive(t, q)
			if err := lease.Renew(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			wantFired(t, faults, 2)
			if err := lease.Complete(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Q13: a repeated delete that finds nothing has met its own success.
func TestLostDeleteReply(t *testing.T) {
	t.Parallel()
	bad, _, faults := faulty(t, inject.LostReply, 1, messageCall(http.MethodDelete))
	_, q := open(t, bad, 10*time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	if err := receive(t, q).Complete(t.Context()); err != nil {
		t.Errorf("Complete: %v", err)
	}
	wantFired(t, faults, 1)
	if n := length(t, q); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// Q13: giving back whose reply is lost has given back.
func TestLostReleaseReply(t *testing.T) {
	t.Parallel()
	bad, _, faults := faulty(t, inject.LostReply, 1, messageCall(http.MethodPut))
	_, q := open(t, bad, 10*time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	if err := receive(t, q).Release(t.Context(), 0, func(i *azq.Item) { i.Releases++ }); err != nil {
		t.Errorf("Release: %v", err)
	}
	wantFired(t, faults, 1)
	if item, err := receive(t, q).Item(); err != nil || item.Releases != 1 {
		t.Errorf("Releases = %d, %v; want 1", item.Releases, err)
	}
}

// Q13: a lost reply to sending sends twice; the id tells.
func TestLostSendReplyIsADuplicateWithTheSameID(t *testing.T) {
	t.Parallel()
	bad, _, faults := faulty(t, inject.LostReply, 1, messageCall(http.MethodPost))
	_, q := open(t, bad, 10*time.Second)
	sendItem(t, q, itemWith(t, "the-same", nil))
	wantFired(t, faults, 1)
	for range 2 {
		if item, err := receive(t, q).Item(); err != nil || item.ID != "the-same" {
			t.Errorf("item %q, %v", item.ID, err)
		}
	}
}

// Q13, Q7: a lost reply to receiving hides the message for its visibility, not for ever.
func TestLostReceiveReply(t *testing.T) {
	t.Parallel()
	bad, _, faults := faulty(t, inject.LostReply, 1, func(r *http.Request) bool {
		return messageCall(http.MethodGet)(r) && r.URL.Query().Get("peekonly") == ""
	})
	_, q := open(t, bad, time.Second)
	sendItem(t, q, itemWith(t, "x", nil))
	if got, err := q.Receive(t.Context(), 1); err == nil {
		t.Fatalf("Receive = %d messages, want the error of the lost reply", len(got))
	}
	wantFired(t, faults, 1)
	if lease := receive(t, q); lease.DequeueCount != 2 {
		t.Errorf("DequeueCount = %d, want 2", lease.DequeueCount)
	}
}

// Q10: a long queue is not cleared in one call.
func TestClearIsRepeatedUntilItIsDone(t *testing.T) {
	t.Parallel()
	bad, _, faults := faulty(t, inject.TimedOut, 3, messageCall(http.MethodDelete))
	_, q := open(t, bad, time.Second)
	for i := range 5 {
		sendItem(t, q, itemWith(t, fmt.Sprint(i), nil))
	}
	if err := q.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFired(t, faults, 3)
	if n := length(t, q); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func TestClearStopsWithItsContext(t *testing.T) {
	t.Parallel()
	bad, _, _ := faulty(t, inject.TimedOut, -1, messageCall(http.MethodDelete))
	_, q := open(t, bad, time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantIs(t, "Clear", q.Clear(ctx), context.DeadlineExceeded)
}

// Q10: list, create, delete.
func TestQueuesAreListedCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	_, q := open(t, a, time.Second)
	if err := q.Create(t.Context()); err != nil { // again: no harm
		t.Fatal(err)
	}
	names := func() []string {
		found, err := a.ListQueues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	want := []string{a.Name(jobs), a.Name(jobs + "-poison")}
	if diff := cmp.Diff(want, names()); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := q.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(); len(got) != 0 {
		t.Errorf("queues after Delete: %v", got)
	}
	sendItem(t, q, itemWith(t, "x", nil)) // sending makes what is missing (Q7: never refused)
	receive(t, q)
}

// Q6: the trip through a queue and a failure keeps unknown members to the byte.
func TestUnknownMembersSurviveTheQueue(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	_, q := open(t, a, 30*time.Second)
	unknown := `"newworker":{"b" :1.0,  "a":[ 1e3, "<&>\u00e9" ]}`
	text := `{"specversion":"1.0","id":"x","type":"cutroom.work.encode.v1","subject":"s",` + unknown + `}`
	if _, err := a.Queue(jobs).EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString([]byte(text)), nil); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, q).Release(t.Context(), 0, func(i *azq.Item) { i.Fail(time.Now(), "old worker", errors.New("boom")) }); err != nil {
		t.Fatal(err)
	}
	seen, err := q.Peek(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(seen[0].Text)
	if err != nil || !strings.Contains(string(raw), unknown) || seen[0].Item.Failures != 1 {
		t.Errorf("the message became %s, %v", raw, err)
	}
}

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}
