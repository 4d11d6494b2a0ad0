package enginetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// A worker of the release before the gates plans no sum of this release, not even when it is
// alone. It works beside one of this release, and finishes what its own release began.
func TestOldWorkerLeavesSumsWithGates(t *testing.T) {
	azuritetest.Slow(t, "an old worker is alone for a while")
	t.Parallel()
	b := newBench(t, 5*time.Second)
	first := b.start(func(o *order) { o.Name, o.Old = "old", true })
	bad, good := b.upload(1, -2, 3), b.upload(numbers...)
	this := b.store
	b.store, _ = enginetest.Worker{Account: b.account, Old: true, Visibility: b.order.Visibility}.Sums()
	before := b.upload(4, 5, 6)
	b.ready(before)
	b.store = this
	for _, id := range []engine.ID{bad, good} {
		if view, err := b.store.View(t.Context(), id); err != nil || len(view.Plans) > 0 || view.Subject.State != engine.Uploaded {
			t.Errorf("the old worker made %d plans of a sum that is %s, %v", len(view.Plans), view.Subject.State, err)
		}
	}
	second := b.start(func(o *order) { o.Name = "new" })
	b.ready(good)
	azuritetest.Eventually(b, time.Minute, func() error {
		rec, err := b.store.Get(t.Context(), bad)
		if err != nil || rec.Subject.State != engine.Failed || rec.Subject.Error.Code != enginetest.NegativeNumber {
			return fmt.Errorf("the gate has not rejected a sum that is %s, %w", rec.Subject.State, orNot(err))
		}
		return nil
	})
	if _, vetted := viewIn(b, before).Find(1, enginetest.Vet, 0); vetted {
		t.Error("the sum of the old release has a gate")
	}
	for _, gate := range []string{enginetest.Vet, enginetest.Limit} {
		if run, found := viewIn(b, good).Find(1, gate, 0); !found || run.Worker != "new" {
			t.Errorf("gate %s ran at %q", gate, run.Worker)
		}
	}
	b.drain(first)
	b.drain(second)
}

func viewIn(b *bench, id engine.ID) enginetest.View {
	b.Helper()
	view, err := b.store.View(b.Context(), id)
	b.must(err)
	return view
}
