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

// erasedMeanwhile is meanwhile for a sum that is deleted and erased.
func erasedMeanwhile(t *testing.T, begin func(*enginetest.Store, *outgoing) engine.ID) (late, s *enginetest.Store, id engine.ID, erased *atomic.Bool) {
	t.Helper()
	return meanwhile(t, begin, func(s *enginetest.Store, id engine.ID) error {
		_, err1 := s.Delete(t.Context(), id, "")
		_, err2 := s.Erase(t.Context(), id, true)
		return errors.Join(err1, err2)
	})
}

// meanwhile returns a store whose first write to table sums waits until something was
// done to the sum that begin makes, another store for looking, and whether that has
// happened.
func meanwhile(t *testing.T, begin func(*enginetest.Store, *outgoing) engine.ID, do func(*enginetest.Store, engine.ID) error) (late, s *enginetest.Store, id engine.ID, done *atomic.Bool) {
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
	a := account(nil)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	s = newStore(a, out)
	id = begin(s, out)
	done = &atomic.Bool{}
	happens = func() {
		if err := do(s, id); err != nil {
			t.Error(err)
		}
		done.Store(true)
	}
	return newStore(account(faults), out), s, id, done
}

// The end of the last part promises nothing to a sum that is erased meanwhile.
func TestFanInDuringADelete(t *testing.T) {
	t.Parallel()
	p := plan(1, false)
	late, s, id, erased := erasedMeanwhile(t, func(s *enginetest.Store, _ *outgoing) engine.ID {
		id := uploaded(t, s)
		planned(t, s, id, p)
		parts(t, s, id, p)
		return id
	})
	if won, err := fanIn(t, late, id); won || err != nil || !erased.Load() {
		t.Errorf("FanIn = %t, %v; erased in between: %t", won, err, erased.Load())
	}
	if n, err := s.Sweep(t.Context(), id); err != nil || n != 0 {
		t.Errorf("%d rows are left of the erased sum, %v", n, err)
	}
}

// A step that fails while its sum is erased adds nothing to it.
func TestStepFailsDuringADelete(t *testing.T) {
	t.Parallel()
	late, s, id, erased := erasedMeanwhile(t, func(s *enginetest.Store, _ *outgoing) engine.ID { return uploaded(t, s) })
	k := engine.Key{ID: id, Generation: 1, Step: enginetest.Split} // never claimed: it has no row
	if err := late.FailStep(t.Context(), k, &engine.Failure{Code: engine.ProcessingFailed}); err != nil || !erased.Load() {
		t.Errorf("FailStep = %v; erased in between: %t", err, erased.Load())
	}
	if n, err := s.Sweep(t.Context(), id); err != nil || n != 0 {
		t.Errorf("%d rows are left of the erased sum, %v", n, err)
	}
}
