package runner_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/runner"
)

// sent records the steps that were asked for.
type sent []string

func (s *sent) SendItem(_ context.Context, _ string, item azq.Item, _ time.Duration) error {
	*s = append(*s, item.Kind)
	return nil
}
func (*sent) Lane(context.Context, string, bool) (int, bool)             { return 0, false }
func (*sent) Waiting(context.Context, string) (bool, error)              { return true, nil }
func (s *sent) take() (taken []string)                                   { taken, *s = *s, nil; return taken }
func never(context.Context, *enginetest.Work) (enginetest.Commit, error) { panic("the step is done") }

type step func(context.Context, *enginetest.Work) (enginetest.Commit, error)

func (s step) Run(ctx context.Context, w *enginetest.Work) (enginetest.Commit, error) {
	return s(ctx, w)
}

// A worker dies after its commit. The message, delivered again, sends what was promised, and
// the step does not run a second time.
func TestDeliveredAgainAfterTheCommit(t *testing.T) {
	t.Parallel()
	account, out := azuritetest.Account(t), &sent{}
	if err := account.Ensure(t.Context(), enginetest.SumNames); err != nil {
		t.Fatal(err)
	}
	store, sum := enginetest.NewStore(account, out, enginetest.Sums()), enginetest.Awaiting()
	_, err := store.Create(t.Context(), sum)
	if err == nil {
		_, err = store.Uploaded(t.Context(), sum.ID, enginetest.Epoch, "etag")
	}
	if err != nil {
		t.Fatal(err)
	}
	key := engine.Key{ID: sum.ID, Generation: 1, Step: enginetest.Split}
	claim, err := store.Claim(t.Context(), key, "message", "killed", time.Time{})
	if err == nil {
		err = claim.Commit(t.Context(), enginetest.Commit{Plan: &enginetest.Plan{Numbers: []int{1, 2, 3, 4}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	out.take()
	r := &runner.Runner[enginetest.Sum, enginetest.Plan]{Store: store, Step: step(never), Scratch: t.TempDir(), Watch: time.Hour, Log: slog.Default()}
	item, err := azq.NewItem(key.Step, string(key.ID), key.ItemID(), key.Payload())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{enginetest.Add, enginetest.Add, enginetest.List, enginetest.Square}, nil} {
		job := &azq.RawJob{Item: item, Delivery: azq.Delivery{DequeueCount: 2}}
		if err := r.Handle(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		got := out.take()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the next delivery sends (-want +got):\n%s", diff)
		}
	}
}
