package engine_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// erasedMeanwhile returns a store whose first write to table sums waits until the sum that begin
// makes was deleted and erased, the account, and whether that has happened.
func erasedMeanwhile(t *testing.T, begin func(*enginetest.Store, *outgoing) engine.ID) (late *enginetest.Store, a *azstore.Account, id engine.ID, erased *atomic.Bool) {
	t.Helper()
	prefix := azuritetest.Prefix()
	var once sync.Once
	var happens func()
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		insert := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, declared.Table)
		if insert || strings.HasSuffix(r.URL.Path, "$batch") {
			once.Do(happens)
		}
		return inject.None
	}}
	account := func(transport policy.Transporter) *azstore.Account {
		return azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = prefix, transport })
	}
	a = account(nil)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	s := newStore(a, out)
	id = begin(s, out)
	erased = &atomic.Bool{}
	happens = func() {
		_, err1 := s.Delete(t.Context(), id, "")
		_, err2 := s.Erase(t.Context(), id, true)
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
		}
		erased.Store(true)
	}
	return newStore(account(faults), out), a, id, erased
}

// The end of the last part promises nothing to a sum that is erased meanwhile.
func TestFanInDuringADelete(t *testing.T) {
	t.Parallel()
	p := plan(1, false)
	late, a, id, erased := erasedMeanwhile(t, func(s *enginetest.Store, _ *outgoing) engine.ID {
		id := uploaded(t, s)
		planned(t, s, id, p)
		parts(t, s, id, p)
		becomesPlayable(t, s, id) // so that the promise is the first write
		return id
	})
	if won, err := fanIn(t, late, id); won || err != nil || !erased.Load() {
		t.Errorf("FanIn = %t, %v; erased in between: %t", won, err, erased.Load())
	}
	if n := rows(t, a, declared.Table); n != 0 {
		t.Errorf("%d rows are left of the erased sum", n)
	}
}

// A step that fails while its sum is erased adds nothing to it, whether the sum fails with it or
// the step fails alone.
func TestStepFailsDuringADelete(t *testing.T) {
	t.Parallel()
	for _, step := range []string{enginetest.Split, stepChecked} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			late, a, id, erased := erasedMeanwhile(t, func(s *enginetest.Store, _ *outgoing) engine.ID {
				id := uploaded(t, s)
				if step != enginetest.Split {
					planned(t, s, id, promising())
				}
				return id
			})
			k := engine.Key{ID: id, Generation: 1, Step: step} // never claimed: it has no row
			if err := late.FailStep(t.Context(), k, &engine.Failure{Code: engine.ProcessingFailed}); err != nil || !erased.Load() {
				t.Errorf("FailStep = %v; erased in between: %t", err, erased.Load())
			}
			if n := rows(t, a, declared.Table); n != 0 {
				t.Errorf("%d rows are left of the erased sum", n)
			}
		})
	}
}
