package runner

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
)

// mute sends nothing.
type mute struct{}

func (mute) SendItem(context.Context, string, azq.Item, time.Duration) error { return nil }
func (mute) Lane(context.Context, string, bool) (int, bool)                  { return 0, false }
func (mute) Waiting(context.Context, string) (bool, error)                   { return true, nil }

// text is a subject, and reading its plan.
type (
	text    struct{ engine.Meta }
	reading struct{ engine.Plan }
)

var declared = engine.Declaration{Name: "text", Table: "texts", Steps: []engine.Step{
	{Name: "split", Stage: engine.First, Queues: []string{"q"}},
	{Name: "join", Stage: engine.Last, Queues: []string{"q"}},
	{Name: "index", Stage: engine.OnChange, Queues: []string{"q"}},
	{Name: "purge", Stage: engine.OnDelete, Queues: []string{"q"}},
}}

func newStore(t *testing.T) *engine.Store[text, reading] {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{"texts", engine.InflightTable, engine.IdempotencyTable}}); err != nil {
		t.Fatal(err)
	}
	return engine.New(account, mute{}, engine.Product[text, reading]{Declaration: declared})
}

// A claim reads META before it writes, so the subject may be cancelled or gone by then. The
// step finds out when it begins, and not only when it has worked for a while.
func TestAStepOfASubjectThatWentMeanwhileStopsAtOnce(t *testing.T) {
	t.Parallel()
	store, id := newStore(t), engine.NewID()
	v := text{engine.Meta{ID: id, State: engine.AwaitingUpload, Upload: &engine.Upload{Bytes: 1, PartBytes: 1, Epoch: "e"}}}
	_, err := store.Create(t.Context(), v)
	if err == nil {
		_, err = store.Uploaded(t.Context(), id, "e", "etag")
	}
	if err != nil {
		t.Fatal(err)
	}
	claim, err := store.Claim(t.Context(), engine.Key{ID: id, Generation: 1, Step: "split"}, "m", "w", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r := &Runner[text, reading]{Watch: time.Hour}
	ctx, stop := context.WithTimeout(t.Context(), azuritetest.Patience(20*time.Second))
	defer stop()
	run := func(ctx context.Context, _ *delivery[text, reading]) error {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := r.watchSubject(ctx, &delivery[text, reading]{claim: claim}, run); !errors.Is(err, engine.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}

// A step is told the queue of its message without the lane, which depends on the customer.
func TestWorkKnowsTheQueueWithoutItsLane(t *testing.T) {
	t.Parallel()
	r := &Runner[text, reading]{Log: slog.Default()}
	for lane := range azq.DefaultLanes {
		job := &azq.RawJob{Queue: azq.LaneName("q", lane), Base: "q"}
		if w := r.newWork(engine.Key{Step: "split"}, job); w.Queue != "q" {
			t.Errorf("lane %d: the queue is %s", lane, w.Queue)
		}
	}
}
