package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// What is committed is told once: also when the reply of every first commit is lost, its
// repetition is refused, and the commit is recognised (Q13); also when the messages
// cannot be sent; and not again when a call is repeated.
func TestCommitsAreToldOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"in good times": false, "when replies are lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, out, told := observed(t, lose)
			id := uploaded(t, s)
			if _, err := s.Uploaded(t.Context(), id, epoch, "etag"); err != nil { // repeated
				t.Fatal(err)
			}
			p := plan(1, false)
			planned(t, s, id, p)
			k := key(id, enginetest.Add, 0)
			if _, err := s.Claim(t.Context(), k, "message", "killed", time.Time{}); err != nil {
				t.Fatal(err)
			}
			if err := claimed(t, s, k, "unlucky").GiveBack(t.Context(), engine.OutcomeRetry, errors.New("the disk is full")); err != nil {
				t.Fatal(err)
			}
			last := claimed(t, s, k, "lucky")
			if err := last.Commit(t.Context(), enginetest.Commit{Output: enginetest.Made{Value: 120}}); err != nil {
				t.Fatal(err)
			}
			out.broken = errors.New("queue is away")
			if err := s.FailStep(t.Context(), key(id, enginetest.Total, 0), &engine.Failure{Code: engine.ProcessingFailed}); !errors.Is(err, out.broken) {
				t.Fatalf("%v, want the sender's error", err)
			}
			want := []string{
				"awaiting_upload → uploaded", "split done of 0", "uploaded → processing",
				"add lost of 1", "add retry of 1", "add done of 1", "processing → failed",
			}
			if diff := cmp.Diff(want, *told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// observed is a store that notes what it tells. With lose, the reply of every first try
// of a transaction is lost.
func observed(t *testing.T, lose bool) (*enginetest.Store, *outgoing, *[]string) {
	t.Helper()
	transactions := 0 // one after the other
	a := azuritetest.AccountWith(t, func(c *azstore.Config) {
		c.Transport = &inject.Transport{Choose: func(r *http.Request) inject.Fault {
			if !lose || !strings.HasSuffix(r.URL.Path, "$batch") {
				return inject.None
			}
			if transactions++; transactions%2 == 0 {
				return inject.None // the repetition, which is refused
			}
			return inject.LostReply
		}}
	})
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	out, told := &outgoing{}, &[]string{}
	s := newStore(a, out)
	s.Observer = (engine.Observer[enginetest.Sum, enginetest.Plan]{
		Subject: func(before, after enginetest.Sum) {
			*told = append(*told, fmt.Sprintf("%s → %s", before.State, after.State))
		},
		Attempt: func(k engine.Key, p enginetest.Plan, a engine.Attempt) {
			*told = append(*told, fmt.Sprintf("%s %s of %d", k.Step, a.Outcome, p.Items(enginetest.Add)))
		},
	})
	return s, out, told
}
