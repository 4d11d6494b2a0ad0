package azq_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Q16d: deletes that came too late raise the visibility, and another role, which
// has seen nothing of it, learns of it with the queue's length.
func TestLateDeletesRaiseTheVisibilityForEveryRole(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	a := azuritetest.Account(t)
	_, worker := open(t, a, 2*time.Second)
	_, other := open(t, a, 2*time.Second) // what another process would hold
	sendItem(t, worker, itemWith(t, "x", nil))
	leases := []*azq.Lease{receive(t, worker), receive(t, worker), receive(t, worker), receive(t, worker)}

	for i, stale := range leases[:3] {
		if err := worker.Tune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := worker.Visibility(); got != 2*time.Second {
			t.Fatalf("after %d late deletes the visibility is %v: too early", i, got)
		}
		wantIs(t, "Complete", stale.Complete(t.Context()), azq.ErrLeaseLost)
	}
	if err := worker.Tune(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := azq.Policy{Visibility: 3 * time.Second, Changed: worker.Policy().Changed, Epoch: 1}
	if age := time.Since(want.Changed); age < 0 || age > time.Minute {
		t.Errorf("changed %v ago, want just now", age)
	}
	if diff := cmp.Diff(want, worker.Policy()); diff != "" {
		t.Errorf("policy of the worker (-want +got):\n%s", diff)
	}
	if got := other.Visibility(); got != 2*time.Second {
		t.Errorf("the other role has %v before it looked", got)
	}
	state, err := other.Length(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, state.Policy); diff != "" || state.Length != 1 || other.Visibility() != 3*time.Second {
		t.Errorf("the other role sees length %d, visibility %v, policy (-want +got):\n%s", state.Length, other.Visibility(), diff)
	}
}

// A policy is written under a lease of 15 s, and no request about it may last longer: it would
// undo what the next writer wrote (H8).
func TestPolicyIsWrittenWithinItsLease(t *testing.T) {
	t.Parallel()
	good := azuritetest.Account(t)
	_, q := open(t, good, 2*time.Second)
	var longest atomic.Int64
	bad := azuritetest.FaultyAccount(t, good, func(r *http.Request) inject.Fault {
		if r.URL.Query().Get("comp") == "metadata" {
			end, bounded := r.Context().Deadline()
			if !bounded {
				end = time.Now().Add(time.Hour)
			}
			longest.Store(max(longest.Load(), int64(time.Until(end))))
		}
		return inject.None
	})
	if err := azq.OpenQueue(bad, q.Spec()).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most := time.Duration(longest.Load()); most <= 0 || most > 12*time.Second {
		t.Errorf("a request about the policy may last %v", most)
	}
}

// What people write into the metadata is bounded (H15): a timeout of 30 ms would end every
// lease at once, and one of years hides messages of dead workers for ever.
func TestVisibilityOfTheMetadataIsBounded(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	_, q := open(t, a, 2*time.Second)
	for text, want := range map[string]time.Duration{
		"30": time.Second, "-5": 2 * time.Second, "0": 2 * time.Second, "soon": 2 * time.Second,
		"9223372036854775807": 7 * 24 * time.Hour, "5000": 5 * time.Second,
	} {
		if _, err := a.Queue(jobs).SetMetadata(t.Context(), &azqueue.SetMetadataOptions{Metadata: map[string]*string{"visibility_ms": &text}}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Length(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := q.Visibility(); got != want {
			t.Errorf("%q: the visibility is %v, want %v", text, got, want)
		}
	}
}

// Two workers that saw late deletes under the same timeout raise it once. A pause at
// the same time is not lost, nor is what others keep in the metadata.
func TestWritersOfThePolicyDoNotOverwriteEachOther(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	a := azuritetest.Account(t)
	_, one := open(t, a, 2*time.Second)
	_, two := open(t, a, 2*time.Second)
	_, web := open(t, a, 2*time.Second)
	theirs := "kept"
	if _, err := a.Queue(jobs).SetMetadata(t.Context(), &azqueue.SetMetadataOptions{Metadata: map[string]*string{"owner": &theirs}}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*azq.Queue{one, two} {
		sendItem(t, q, itemWith(t, "x", nil))
		leases := []*azq.Lease{receive(t, q), receive(t, q), receive(t, q), receive(t, q)}
		for _, stale := range leases[:3] {
			wantIs(t, "Complete", stale.Complete(t.Context()), azq.ErrLeaseLost)
		}
		if err := q.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for _, change := range []func() error{
		func() error { return one.Tune(t.Context()) },
		func() error { return two.Tune(t.Context()) },
		func() error { return web.Pause(t.Context()) },
	} {
		all.Go(func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	state, err := web.Length(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(azq.Policy{Visibility: 3 * time.Second, Changed: state.Policy.Changed, Epoch: 2, Paused: true}, state.Policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if err := web.Resume(t.Context()); err != nil || web.Policy().Paused || web.Policy().Epoch != 3 || !web.Policy().Changed.Equal(state.Policy.Changed) {
		t.Errorf("after Resume: %+v, %v", web.Policy(), err)
	}
	got, err := a.Queue(jobs).GetProperties(t.Context(), nil)
	if err != nil || got.Metadata["Owner"] == nil || *got.Metadata["Owner"] != theirs {
		t.Errorf("metadata of others is gone: %v, %v", got.Metadata, err)
	}
}
