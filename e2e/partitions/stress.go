package partitions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Stress says how to stress what.
type Stress struct {
	// ConnectionString is an account of Azure's. Empty: Azurite behind the model.
	ConnectionString string
	Scale            float64       // of the model's budgets; ignored against Azure
	Step             time.Duration // how long each load is held
	Rows             int           // that each table holds before
	Peak             float64       // the highest load, in times the 2,000 line
	Keys             []string      // names of those to compare; nil: all
	Log              io.Writer     // a line for each table
}

// Step is what one load came to. Rates are per second.
type Step struct {
	Offered   float64 // entities that clients tried to write
	Written   float64 // and that were acknowledged
	Busy      float64 // share of tries answered 503 ServerBusy
	Broken    float64 // share of time-outs and broken connections
	P50, P99  time.Duration
	Intended  float64 // load that was asked for; Offered is less when clients cannot keep up
	Tries     int
	FirstFail string `json:",omitempty"` // of an error that is none of these
}

// Result is one key under all loads.
type Result struct {
	Key      string
	Row      string
	Example  string
	Steps    []Step // with the model, or on Azure
	Bare     []Step `json:",omitempty"` // the same on Azurite alone
	Splits   int    // that the model made
	Moves    int
	Hot      int     // looks at which a range was hot and could not be split
	ReadCost float64 // requests for one row by its id, on the average; 0: its key is not in the id
	Verdict  string

	key Key
}

// Laboratory is the outcome of a run of the partition laboratory (paper rows T3, T9, S1 to
// S3): a growing load at tables whose rows get their PartitionKey in different ways. Before
// Azurite stands the model; then limits, splits and moves are modelled, and only what Azurite
// and the SDK can do is measured. Against Azure everything is.
type Laboratory struct {
	Started   time.Time
	Modelled  bool
	Model     string  // what the model was
	Scale     float64 // 1 against Azure
	Line500   float64 // entities/s here that stand for 500 on Azure
	Line2000  float64
	Server    float64 // the model's assumption about a server; 0 against Azure
	Results   []Result
	StepTime  time.Duration
	TableRows int
}

// Run makes tables, stresses each, and deletes them.
func (o Stress) Run(ctx context.Context) (_ *Laboratory, err error) {
	r := &Laboratory{Started: time.Now().UTC(), Scale: 1, StepTime: o.Step, TableRows: o.Rows}
	bare := o.ConnectionString
	if bare == "" {
		r.Modelled, r.Scale = true, o.Scale
		emulator, err := azurite.Start(ctx, azurite.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, emulator.Stop()) }()
		bare = emulator.ConnectionString()
	}
	cfg := Config{Seed: 1, Scale: r.Scale, SplitAfter: time.Second, MoveTime: time.Second}
	r.Line500, r.Line2000 = TargetPartitionPaper/r.Scale, TargetPartition/r.Scale
	if r.Modelled {
		r.Model, r.Server = cfg.String(), 2*r.Line2000
	}
	for _, key := range Keys() {
		if o.Keys != nil && !slices.Contains(o.Keys, key.Name) {
			continue
		}
		one, err := stressKey(ctx, o, r, key, bare, cfg)
		if err != nil {
			return nil, fmt.Errorf("stress key %q: %w", key.Name, err)
		}
		r.Results = append(r.Results, *one)
		top := one.Steps[len(one.Steps)-1]
		_, _ = fmt.Fprintf(o.Log, "%-21s %4.0f of %4.0f entities/s written, %3.0f %% busy, %3.0f %% broken, p99 %v, %d splits\n",
			key.Name, top.Written, top.Offered, 100*top.Busy, 100*top.Broken, top.P99.Round(time.Millisecond), one.Splits)
	}
	return r, nil
}

// noRetry: a refusal is what we want to see.
var noRetry = azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: 30 * time.Second}

func stressKey(ctx context.Context, o Stress, r *Laboratory, key Key, bare string, cfg Config) (_ *Result, err error) {
	calm, err := azstore.Open(azstore.Config{ConnectionString: bare, Prefix: "stress"})
	if err != nil {
		return nil, err
	}
	defer calm.CloseIdle()
	result := &Result{Key: key.Name, Row: key.Row, Example: key.Example, key: key}
	run := func(connection string, d time.Duration) (steps []Step, err error) {
		// A new name each time: Azure needs a while to forget a table.
		name := fmt.Sprintf("keys%d", time.Now().UnixMilli())
		if err := calm.Ensure(ctx, azstore.Names{Tables: []string{name}}); err != nil {
			return nil, err
		}
		defer func() {
			_, deleteErr := calm.Table(name).Delete(context.WithoutCancel(ctx), nil)
			err = errors.Join(err, deleteErr)
		}()
		ids, err := fill(ctx, tablestore.New(calm, name), key, o.Rows)
		if err != nil {
			return nil, err
		}
		account, err := azstore.Open(azstore.Config{ConnectionString: connection, Prefix: "stress", Retry: noRetry})
		if err != nil {
			return nil, err
		}
		defer account.CloseIdle()
		table := tablestore.New(account, name)
		for factor := 0.25; factor <= o.Peak; factor *= 2 {
			step, err := hold(ctx, table, key, factor*r.Line2000, d)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
		if result.ReadCost == 0 && key.place != nil {
			result.ReadCost, err = readCost(ctx, tablestore.New(calm, name), key, ids)
		}
		return steps, err
	}
	if !r.Modelled {
		result.Steps, err = run(bare, o.Step)
	} else {
		proxy, startErr := Start(bare, cfg)
		if startErr != nil {
			return nil, startErr
		}
		result.Steps, err = run(proxy.ConnectionString(), o.Step)
		s := proxy.Stats()
		result.Splits, result.Moves, result.Hot = s.Splits, s.Moves, s.Unsplittable
		proxy.Close()
		if err == nil {
			result.Bare, err = run(bare, o.Step/2)
		}
	}
	if err != nil {
		return nil, err
	}
	result.Verdict = verdict(r, result)
	return result, nil
}

func rowOf(partition, id string) tablestore.Entity {
	return tablestore.Entity{PartitionKey: partition, RowKey: id, Props: map[string]any{"Viewer": "viewer-1", "Seconds": 42}}
}

// fill brings rows as the table will have them, in transactions where the key
// allows it.
func fill(ctx context.Context, table *tablestore.Table, key Key, rows int) (ids []string, err error) {
	var ops []tablestore.Op
	for range rows {
		id := newID()
		ids = append(ids, id)
		ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: rowOf(key.partition(id), id)})
	}
	return ids, table.SubmitAll(ctx, ops)
}

// maxInFlight bounds the clients, as those of a real service are bounded.
const maxInFlight = 256

// settle is how long a load is held before it is measured: buckets are full after
// a lower one.
const settle = time.Second

// hold writes new rows at a steady rate for a while. Nothing is repeated.
func hold(ctx context.Context, table *tablestore.Table, key Key, perSecond float64, d time.Duration) (Step, error) {
	var mu sync.Mutex
	var times []time.Duration
	s := Step{Intended: perSecond}
	busy, broken := 0, 0
	var all sync.WaitGroup
	slots := make(chan struct{}, maxInFlight)
	start := time.Now()
	measured := start.Add(settle)
	for n := 0; time.Since(measured) < d && ctx.Err() == nil; n++ {
		due := start.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))
		time.Sleep(time.Until(due))
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			id := newID()
			began := time.Now()
			_, err := table.Upsert(ctx, rowOf(key.partition(id), id))
			took := time.Since(began)
			if began.Before(measured) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			s.Tries++
			status, code, answered := azstore.Describe(err)
			switch {
			case err == nil:
				times = append(times, took)
			case status == 503 && code == "ServerBusy":
				busy++
			case !answered || code == "OperationTimedOut":
				broken++
			case s.FirstFail == "":
				s.FirstFail = err.Error()
			}
		})
	}
	sent := time.Since(measured)
	all.Wait()
	if err := ctx.Err(); err != nil {
		return s, fmt.Errorf("hold a load of %.0f/s: %w", perSecond, err)
	}
	// Until the last answer: what waits in a queue was not written in time.
	s.Offered = float64(s.Tries) / sent.Seconds()
	s.Written = float64(len(times)) / time.Since(measured).Seconds()
	if s.Tries > 0 {
		s.Busy, s.Broken = float64(busy)/float64(s.Tries), float64(broken)/float64(s.Tries)
	}
	slices.Sort(times)
	if len(times) > 0 {
		s.P50, s.P99 = times[len(times)/2], times[len(times)*99/100]
	}
	return s, nil
}

// readCost counts the requests for one row by its id, where the partition may
// be any of several.
func readCost(ctx context.Context, table *tablestore.Table, key Key, ids []string) (float64, error) {
	metered, meter := azstore.WithCounter(ctx)
	sample := ids[:min(len(ids), 30)]
	for _, id := range sample {
		found := false
		for _, partition := range key.place(id) {
			_, err := table.Get(metered, partition, id)
			if errors.Is(err, tablestore.ErrNotFound) {
				continue
			}
			if err != nil {
				return 0, err
			}
			found = true
			break
		}
		if !found {
			return 0, fmt.Errorf("row %s is nowhere", id)
		}
	}
	return float64(meter.Requests()) / float64(max(1, len(sample))), nil
}
