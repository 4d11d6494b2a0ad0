package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// declared are the steps of sums, and some that no plan of theirs promises.
var declared = enginetest.Sums()

const (
	stepChecked = "checked" // a part that fails alone
	stepSpotted = "spotted" // for each pair, when the sum is ready
	stepMoved   = "moved"   // after ready; an older release declared it as a part
	stepRated   = "rated"   // a gate, which withdraws nothing
	stepEarly   = "early"   // a gate that does not wait for the upload
)

func TestMain(m *testing.M) {
	declared.Steps = append(declared.Steps,
		engine.Step{Name: stepChecked, Stage: engine.Part, Optional: true, Queues: []string{enginetest.Rest}},
		engine.Step{Name: stepSpotted, Stage: engine.AfterReady, Count: enginetest.PerPair, Queues: []string{enginetest.Bulk}},
		engine.Step{Name: stepMoved, Stage: engine.AfterReady, Queues: []string{enginetest.Rest}},
		engine.Step{Name: stepRated, Stage: engine.Gate, Queues: []string{enginetest.Rest}},
		engine.Step{Name: stepEarly, Stage: engine.Gate, Early: true, Queues: []string{enginetest.Rest}},
	)
	azuritetest.Main(m)
}

func newStore(a *azstore.Account, sender engine.Sender) *enginetest.Store {
	return enginetest.NewStore(a, sender, declared)
}

// awaiting is a sum of which some parts may be there.
func awaiting() enginetest.Sum { return enginetest.Awaiting() }

// epoch is that of the upload of every sum of awaiting.
const epoch = enginetest.Epoch

// outgoing records what is sent, and fails while broken is set.
type outgoing struct {
	mu     sync.Mutex
	sent   []string // "queue: step"
	items  []azq.Item
	broken error
	hungry atomic.Bool // the queues have run empty

	meanwhile func() // is called once, while a commit asks whether something waits
}

func (o *outgoing) SendItem(_ context.Context, queue string, item azq.Item, _ time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken != nil {
		return o.broken
	}
	o.sent = append(o.sent, queue+": "+item.Kind)
	o.items = append(o.items, item)
	return nil
}

// Lane implements engine.Sender.
func (*outgoing) Lane(context.Context, string, bool) (int, bool) { return 0, false }

// Waiting implements engine.Sender.
func (o *outgoing) Waiting(context.Context, string) (bool, error) {
	if do := o.meanwhile; do != nil {
		o.meanwhile = nil
		do()
	}
	return !o.hungry.Load(), nil
}

func (o *outgoing) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.sent
	o.sent, o.items = nil, nil
	return sent
}

func (o *outgoing) takeItems() []azq.Item {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.items
	o.sent, o.items = nil, nil
	return items
}

func setup(t *testing.T) (*enginetest.Store, *outgoing) {
	t.Helper()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: enginetest.SumNames.Tables}); err != nil {
		t.Fatal(err)
	}
	out := &outgoing{}
	return newStore(a, out), out
}

func inflight(t *testing.T, s *enginetest.Store) (marks []engine.Inflight, _ error) {
	t.Helper()
	for mark, err := range s.Inflight(t.Context()) {
		if err != nil {
			return nil, err
		}
		marks = append(marks, mark)
	}
	return marks, nil
}

// uploaded makes a sum whose first step is promised.
func uploaded(t *testing.T, s *enginetest.Store) engine.ID {
	t.Helper()
	v := awaiting()
	if _, err := s.Create(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Uploaded(t.Context(), v.ID, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// plan promises so many runs of add and, if squares are wanted, of square.
func plan(pairs int, squares bool) enginetest.Plan {
	p := enginetest.Plan{Plan: engine.Plan{Generation: 1}, Numbers: make([]int, 2*pairs)}
	p.Promises = slices.DeleteFunc(declared.PromisesFor(p.Counts()), func(p engine.Promise) bool {
		return p.Step == stepChecked || p.After || p.Gate || p.Step == enginetest.Square && !squares
	})
	return p
}

func key(id engine.ID, step string, index int) engine.Key {
	return engine.Key{ID: id, Generation: 1, Step: step, Index: index}
}

// planned commits a plan, as the first step does.
func planned(t *testing.T, s *enginetest.Store, id engine.ID, p enginetest.Plan) {
	t.Helper()
	c, err := s.Claim(t.Context(), key(id, enginetest.Split, 0), "message-1", "worker-1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Commit(t.Context(), enginetest.Commit{Plan: &p, Edit: func(v *enginetest.Sum) { v.State = engine.Processing }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
