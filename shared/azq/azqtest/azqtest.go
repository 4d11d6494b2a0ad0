// Package azqtest is for tests of handlers. It runs them on real queues with a
// client that has short timeouts, and causes what handlers must survive: a message
// that is delivered twice, a lease that is lost, a drain, a message that another
// version of the program sent.
//
//	queues := azqtest.Open(t, azuritetest.Account(t), azq.Spec{Name: "mail", Kinds: []string{"welcome"}, Pool: "mail", Visibility: 2 * time.Second})
//	worker := azqtest.Start(t, queues, map[string]azq.Handler{"welcome": azqtest.Twice(handler)})
//	azqtest.Send(t, queues, "mail", item)
//	azqtest.WaitEmpty(t, queues.Queue("mail"))
//
// Every function ends the test when a request fails, and every wait has a deadline.
package azqtest

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// patience bounds every wait.
const patience = 40 * time.Second

// Open creates the queues of specs in an account.
func Open(t testing.TB, a *azstore.Account, specs ...azq.Spec) *azq.Client {
	t.Helper()
	queues := azq.Open(a, azq.Options{Queues: specs})
	if err := queues.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	return queues
}

// Names lists every queue of the options: base queues, their poison queues and other lanes.
func Names(o azq.Options) (names []string) {
	for _, spec := range o.Queues {
		names = append(names, spec.Name, azq.PoisonName(spec.Name))
		for lane := 1; spec.Laned && lane < cmp.Or(o.Lanes, azq.DefaultLanes); lane++ {
			names = append(names, azq.LaneName(spec.Name, lane))
		}
	}
	return names
}

// Send puts items into the queue of that name.
func Send(t testing.TB, queues *azq.Client, queue string, items ...azq.Item) {
	t.Helper()
	for _, item := range items {
		if err := queues.SendItem(context.Background(), queue, item, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// SendText puts a text into a queue, in base64: a message as an older or newer version
// of the program, or another program, would send it.
func SendText(t testing.TB, a *azstore.Account, queue, text string) {
	t.Helper()
	options := &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))}
	if _, err := a.Queue(queue).EnqueueMessage(context.Background(), base64.StdEncoding.EncodeToString([]byte(text)), options); err != nil {
		t.Fatal(err)
	}
}

// Worker is a client that runs until the test ends or [Worker.Drain].
type Worker struct {
	*azq.Client
	drain func()
}

// Start runs another client of the queues, with four slots in each pool and pauses of a second
// or less. The functions may change its options.
func Start(t testing.TB, queues *azq.Client, handlers map[string]azq.Handler, change ...func(*azq.Options)) Worker {
	t.Helper()
	return Run(t, queues.With(Options(queues, handlers, change...)))
}

// Options are those that Start uses.
func Options(queues *azq.Client, handlers map[string]azq.Handler, change ...func(*azq.Options)) azq.Options {
	options := azq.Options{
		Handlers: handlers, Pools: map[string]int{}, Worker: "w1",
		FirstRetry: time.Second, MaxRetry: time.Second, DeferPause: time.Second,
		RefreshPolicy: 300 * time.Millisecond, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, spec := range queues.Specs() {
		options.Pools[spec.Pool] = 4
	}
	for _, f := range change {
		f(&options)
	}
	return options
}

// Run runs a client until the test ends or [Worker.Drain].
func Run(t testing.TB, client *azq.Client) Worker {
	t.Helper()
	if err := client.Check(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- client.Run(ctx) }()
	w := Worker{Client: client, drain: sync.OnceFunc(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(w.drain)
	return w
}

// Drain does what SIGTERM does to a role: the handlers' contexts are cancelled with
// azq.ErrDraining and the messages released. It returns when the last handler
// has returned.
func (w Worker) Drain() { w.drain() }

// Counts returns the numbers of one queue, zero if it is not consumed.
func Counts(s azq.Stats, queue string) azq.QueueStats {
	for _, q := range s.Queues {
		if q.Queue == queue {
			return q
		}
	}
	return azq.QueueStats{}
}

// WaitCounts waits until right accepts the counters of a queue.
func (w Worker) WaitCounts(t testing.TB, queue string, right func(azq.QueueStats) bool) {
	t.Helper()
	azuritetest.Eventually(t, patience, func() error {
		if s := Counts(w.Stats(), queue); !right(s) {
			return fmt.Errorf("counters are %+v", s)
		}
		return nil
	})
}

// WaitEmpty waits until no message is left in a queue, hidden ones included.
func WaitEmpty(t testing.TB, q *azq.Queue) {
	t.Helper()
	azuritetest.Eventually(t, patience, func() error {
		s, err := q.Length(context.Background())
		if err == nil && s.Length != 0 {
			err = fmt.Errorf("%d messages are left in %s", s.Length, q.Name())
		}
		return err
	})
}

// WaitPoison waits until there are n poison items and returns them.
func WaitPoison(t testing.TB, queues *azq.Client, n int) (list []azq.Poisoned) {
	t.Helper()
	azuritetest.Eventually(t, patience, func() (err error) {
		list, _, err = queues.ListPoison(context.Background(), 100, "")
		if err == nil && len(list) != n {
			err = fmt.Errorf("%d poisoned items, want %d", len(list), n)
		}
		return err
	})
	return list
}

// LoseLease deletes all messages of the queue, as if another worker had finished them.
// The handlers' contexts end with azq.ErrLeaseLost at the next renewal, after a
// third of the visibility timeout.
func LoseLease(t testing.TB, q *azq.Queue) {
	t.Helper()
	if err := q.Clear(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Twice makes every message come once more after h has succeeded, as when a worker
// dies between its commit and the delete. The second delivery comes when the
// visibility timeout of the first ends.
func Twice(h azq.Handler) azq.Handler {
	var done sync.Map // by message id
	return azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
		err := h.Handle(ctx, job)
		if err != nil {
			return err
		}
		if _, again := done.LoadOrStore(job.MessageID, true); !again {
			return azq.ErrLeaseLost // the consumer leaves the message alone
		}
		return nil
	})
}

// Recorder is a handler that records the ids of its items. Next does the work; nil
// means none.
type Recorder struct {
	Next func(ctx context.Context, job *azq.RawJob) error

	mu   sync.Mutex
	seen []string
}

// Handle implements azq.Handler.
func (r *Recorder) Handle(ctx context.Context, job *azq.RawJob) error {
	r.mu.Lock()
	r.seen = append(r.seen, job.Item.ID)
	r.mu.Unlock()
	if r.Next == nil {
		return nil
	}
	return r.Next(ctx, job)
}

// IDs returns the ids of all deliveries so far, in their order.
func (r *Recorder) IDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}
