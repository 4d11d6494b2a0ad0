// Package workers is the register of worker roles: table "workers", one row per process,
// rewritten every few seconds. Operators read it, and so does the reconciler: it does not
// replace a message on which a living worker works. Who owns work the queues decide.
//
//	PartitionKey  "worker": some dozens of rows, written rarely (single, T4)
//	RowKey        the worker's name
//
// One more row, "probe"/"probe", is what Probe writes.
package workers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Table is the table's base name.
const Table = "workers"

const partition = "worker"

// Worker is one process and what it is doing.
type Worker struct {
	Name      string         `json:"name"`
	Host      string         `json:"host"`
	PID       int            `json:"pid"`
	StartedAt time.Time      `json:"startedAt"`
	SeenAt    time.Time      `json:"seenAt"`
	Draining  bool           `json:"draining"`
	Leader    bool           `json:"leader"` // elected for reconciling and cleaning
	Pools     map[string]int `json:"pools"`  // slots by pool
	Busy      []azq.Running  `json:"busy"`
	Done      int64          `json:"done"`              // items completed since the start
	Failed    int64          `json:"failed"`            // attempts that failed
	Trouble   string         `json:"trouble,omitempty"` // why it receives nothing; empty in good times
	Troubled  int64          `json:"troubled"`          // deliveries that met trouble and were given back
	Stale     int64          `json:"staleLeases"`       // deletes and renewals that came too late (Q16d)

	// Queues counts by queue, lanes apart, what became of items since the start.
	Queues map[string]Count `json:"queues,omitempty"`
	// Breakers are the dependencies whose circuit breaker is not closed.
	Breakers []azq.BreakerStats `json:"breakers,omitempty"`
}

// Pauses between two heartbeats of a worker, at most.
const (
	BeatEvery = time.Second
	RestEvery = 10 * time.Second
)

// Rests reports whether the worker neither works nor leads: then it has little to tell.
func (w Worker) Rests() bool { return len(w.Busy) == 0 && !w.Leader }

// Overdue is how late the worker's next heartbeat is, or, of one that works, the third;
// negative before it is due.
func (w Worker) Overdue(now time.Time) time.Duration {
	if w.Rests() {
		return now.Sub(w.SeenAt) - RestEvery
	}
	return now.Sub(w.SeenAt) - 3*BeatEvery
}

// Doing is the worker with what its client is doing now.
func (w Worker) Doing(client *azq.Client) Worker {
	stats := client.Stats()
	w.Draining, w.Busy, w.Queues = stats.Draining, stats.Running, map[string]Count{}
	for _, q := range stats.Queues {
		w.Done += q.Completed
		w.Failed += q.Failed
		w.Troubled += q.Troubled
		w.Stale += q.StaleDeletes + q.StaleRenewals
		count := Count{Done: q.Completed, Failed: q.Failed, Poisoned: q.Poisoned, Renewed: q.Renewals, Released: q.Released + q.Troubled, Seconds: q.Worked.Seconds()}
		if count != (Count{}) {
			w.Queues[q.Queue] = count
		}
	}
	for _, b := range stats.Breakers {
		if b.State != azq.BreakerClosed {
			w.Breakers = append(w.Breakers, b)
		}
	}
	if trouble := client.Ready(); trouble != nil {
		w.Trouble = trouble.Error()
	}
	return w
}

// Count is what became of the items of one queue at one worker.
type Count struct {
	Done     int64 `json:"done,omitempty"`
	Failed   int64 `json:"failed,omitempty"` // attempts
	Poisoned int64 `json:"poisoned,omitempty"`
	Renewed  int64 `json:"renewed,omitempty"` // leases
	Released int64 `json:"released,omitempty"`

	// Seconds is how long the items done took together.
	Seconds float64 `json:"seconds,omitempty"`
}

// Register is safe for concurrent use.
type Register struct{ table *tablestore.Table }

// New returns the register of the account.
func New(a *azstore.Account) *Register { return &Register{tablestore.New(a, Table)} }

// Beat writes a worker's row. Safe to repeat.
func (r *Register) Beat(ctx context.Context, w Worker) error {
	_, err := r.table.Upsert(ctx, tablestore.Entity{PartitionKey: partition, RowKey: tablestore.EscapeKey(w.Name), Props: tablestore.Props(struct {
		Doc    Worker
		SeenAt time.Time
	}{w, w.SeenAt})})
	return err
}

// Probe asks whether the table service takes writes, by a row that is never read.
func (r *Register) Probe(ctx context.Context) error {
	_, err := r.table.Upsert(ctx, tablestore.Entity{PartitionKey: "probe", RowKey: "probe"})
	return err
}

// Leave removes a worker that stops in good order.
func (r *Register) Leave(ctx context.Context, name string) error {
	return r.table.Delete(ctx, partition, tablestore.EscapeKey(name), tablestore.AnyETag)
}

// Forget removes the rows of workers that were last seen before a time: killed ones, which
// could not leave. It returns how many. Safe to repeat.
func (r *Register) Forget(ctx context.Context, before time.Time) (removed int, _ error) {
	return r.table.Clear(ctx, tablestore.Query{
		PartitionKey: partition, Filter: "SeenAt lt datetime'" + before.UTC().Format(time.RFC3339) + "'", Class: tablestore.RowRange,
	})
}

// List returns the workers seen since, by name, without rows that cannot be read.
func (r *Register) List(ctx context.Context, since time.Time) ([]Worker, error) {
	var list []Worker
	query := tablestore.Query{PartitionKey: partition, Class: tablestore.RowRange, Read: tablestore.Into(&list, readWorker)}
	for _, err := range r.table.Query(ctx, query) {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(list, func(w Worker) bool { return w.SeenAt.Before(since) }), nil
}

func readWorker(row tablestore.Entity) (w Worker, err error) {
	err = row.JSON("Doc", &w)
	if err == nil && tablestore.EscapeKey(w.Name) != row.RowKey {
		err = fmt.Errorf("its key is of another worker than %q", w.Name)
	}
	return w, err
}
