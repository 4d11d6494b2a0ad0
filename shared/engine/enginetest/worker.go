package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// Worker works on sums until its context ends.
type Worker struct {
	Account    *azstore.Account
	Name       string
	Scratch    string
	Visibility time.Duration
	// Upkeep: it stands for election, too.
	Upkeep bool
	// Old: it is of a release before the gates, and so of their version of messages.
	Old bool
	// At is told of every point in the order of writes; of steps without rows, too.
	At func(point string)
	// Before is called before a step does its work, which fails with its error; nil for nothing.
	Before func(ctx context.Context) error
	// Told is told of every attempt whose end was written.
	Told func(key engine.Key, a engine.Attempt)
	Log  *slog.Logger
}

// Sums opens the store and the queues as a worker does.
func (w Worker) Sums() (*Store, *azq.Client) {
	d := Sums()
	if w.Old {
		d.Steps = slices.DeleteFunc(d.Steps, func(s engine.Step) bool { return s.Stage == engine.Gate })
	}
	d.Queues = Queues(w.Visibility, d)
	queues := azq.Open(w.Account, azq.Options{Queues: d.Queues, Namespace: d.Name})
	store := NewStore(w.Account, queues, d)
	store.ItemVersion = w.version()
	return store, queues
}

func (w Worker) version() int {
	if w.Old {
		return ItemVersion - 1
	}
	return ItemVersion
}

// Upkeeper makes the duties, with graces short enough for tests.
func (w Worker) Upkeeper(grace time.Duration) (*upkeep.Reconciler[Sum, Plan], *upkeep.Janitor[Sum, Plan]) {
	store, queues := w.Sums()
	blobs := blobstore.New(w.Account)
	return &upkeep.Reconciler[Sum, Plan]{
			Store: store, Queue: upkeep.StateIn(queues), Grace: grace, OrphanAfter: 5 * grace,
			CreateTimeout: time.Minute, AbandonAfter: time.Hour, SweepAfter: 2 * grace, Log: w.Log,
			Workers: func(ctx context.Context) ([]workers.Worker, error) {
				return workers.New(w.Account).List(ctx, time.Now().Add(-upkeep.Alive))
			},
		}, &upkeep.Janitor[Sum, Plan]{
			Store: store, Blobs: blobs, Grace: 10 * grace, Log: w.Log,
		}
}

// Run works until ctx ends, then drains.
func (w Worker) Run(ctx context.Context) error {
	store, queues := w.Sums()
	store.Observer.Attempt = func(key engine.Key, _ Plan, a engine.Attempt) {
		if w.Told != nil && store.StepOf(key).HasRows() {
			w.Told(key, a)
		}
	}
	s := steps{store: store, blobs: blobstore.New(w.Account), totals: tablestore.New(w.Account, TotalsTable), at: w.At}
	handlers := map[string]azq.Handler{}
	for name, run := range map[string]step{
		Split: s.split, Vet: s.vet, Limit: s.limit, Add: s.add, Square: s.square, Total: s.total,
		Report: s.report, Average: s.average, List: s.list, Erase: s.erase,
	} {
		if _, known := store.Find(name); !known {
			continue
		}
		handlers[name] = &runner.Runner[Sum, Plan]{
			Store: store, Blobs: s.blobs, Worker: w.Name, Scratch: w.Scratch, Watch: time.Second, Log: w.Log,
			Hooks: runner.Hooks[Sum, Plan]{At: w.At},
			Step: step(func(ctx context.Context, work *Work) (Commit, error) {
				if err := w.before(ctx); err != nil {
					return Commit{}, err
				}
				return run(ctx, work)
			}),
		}
	}
	client := queues.With(azq.Options{
		Handlers: handlers, Version: w.version(), DeferPause: time.Second, Pools: map[string]int{"default": 4}, Worker: w.Name, Log: w.Log, FirstRetry: time.Second, MaxRetry: time.Second,
		DrainTimeout: time.Minute, // of a starved machine
	})
	if err := client.Check(); err != nil {
		return err
	}
	var duties sync.WaitGroup
	if w.Upkeep {
		w.lead(ctx, client, &duties)
	}
	err := client.Run(ctx)
	duties.Wait()
	return err
}

func (w Worker) before(ctx context.Context) error {
	if w.Before == nil {
		return nil
	}
	return w.Before(ctx)
}

// lead starts the heartbeat, and the duties that one of all workers does.
func (w Worker) lead(ctx context.Context, client *azq.Client, duties *sync.WaitGroup) {
	reconciler, janitor := w.Upkeeper(time.Second)
	leader := &upkeep.Leader{Blobs: blobstore.New(w.Account), Log: w.Log, Duties: []upkeep.Duty{
		{Name: "reconcile", Every: 300 * time.Millisecond, Do: reconciler.Pass},
		{Name: "janitor", Every: time.Second, Do: janitor.Pass},
	}}
	duties.Go(func() { leader.Run(ctx) })
	duties.Go(func() {
		upkeep.Heartbeat(ctx, workers.New(w.Account), func() workers.Worker {
			return workers.Worker{Name: w.Name, Leader: leader.Leading(), Busy: client.Stats().Running}
		}, w.Log)
	})
}

// step is a function that is a runner.Step.
type step func(ctx context.Context, w *Work) (Commit, error)

func (s step) Run(ctx context.Context, w *Work) (Commit, error) { return s(ctx, w) }

type steps struct {
	store  *Store
	blobs  *blobstore.Store
	totals *tablestore.Table
	at     func(point string)
}

// reach tells of a point of a step without rows.
func (s steps) reach(point string) {
	if s.at != nil {
		s.at(point)
	}
}

func (s steps) split(ctx context.Context, w *Work) (Commit, error) {
	numbers, err := get[[]int](ctx, s.blobs, engine.SourcesContainer, Source(w.Key.ID))
	return Commit{Plan: &Plan{Numbers: numbers, Vetted: len(numbers)%2 == 1}}, err
}

func (s steps) vet(_ context.Context, w *Work) (Commit, error) {
	if slices.Min(w.Plan.Numbers) < 0 {
		return Commit{}, engine.Fail(NegativeNumber, "there is one")
	}
	return Commit{Facts: map[string]bool{"positive": true}}, nil
}

func (s steps) limit(_ context.Context, w *Work) (none Commit, _ error) {
	if most := slices.Max(w.Plan.Numbers); most > 1000 {
		return none, engine.Fail(LargeNumber, "%d is above 1000", most)
	}
	return none, nil
}

func (s steps) add(ctx context.Context, w *Work) (Commit, error) {
	sum := 0
	for _, n := range w.Plan.some(w.Key.Index, 2) {
		sum += n
	}
	made, err := put(ctx, w, sum)
	return Commit{Output: made}, err
}

func (s steps) square(ctx context.Context, w *Work) (Commit, error) {
	sum := 0
	for _, n := range w.Plan.some(w.Key.Index, 4) {
		sum += n * n
	}
	made, err := put(ctx, w, sum)
	return Commit{Output: made}, err
}

// merged adds up what the runs of a step have committed, as their blobs say it.
func (s steps) merged(ctx context.Context, w *Work, of string) (sum int, _ error) {
	parts, err := runner.Outputs[Made](ctx, w, of)
	if err != nil {
		return 0, err
	}
	for i, part := range parts {
		if part == nil {
			return 0, azq.Permanent(fmt.Errorf("%s has not made part %d, and all must have ended", of, i))
		}
		value, err := get[int](ctx, s.blobs, engine.MediaContainer, part.Blob)
		if err != nil {
			return 0, fmt.Errorf("what %s committed: %w", of, err)
		}
		sum += value
	}
	return sum, nil
}

func (s steps) total(ctx context.Context, w *Work) (Commit, error) {
	total, err := s.merged(ctx, w, Add)
	if err != nil {
		return Commit{}, err
	}
	squares, err := s.merged(ctx, w, Square)
	if err != nil {
		return Commit{}, err
	}
	made, err := put(ctx, w, total)
	return Commit{Output: made, Edit: func(sum *Sum) { sum.Total, sum.Squares = total, squares }}, err
}

func (s steps) report(ctx context.Context, w *Work) (Commit, error) {
	text := fmt.Appendf(nil, "%d", w.Subject.Total)
	file, err := w.PutData(ctx, "report.txt", text, "text/plain")
	return Commit{Files: []engine.File{file}, Facts: map[string]int{"bytes": len(text)}}, err
}

func (s steps) average(ctx context.Context, w *Work) (Commit, error) {
	sum := 0
	for _, n := range w.Plan.Numbers[w.Key.Index : w.Key.Index+w.Key.Length] {
		sum += n
	}
	made, err := put(ctx, w, sum/w.Key.Length)
	return Commit{Output: made}, err
}

// copied reads the copy of a total, or returns false when there is none.
func (s steps) copied(ctx context.Context, id engine.ID) (row tablestore.Entity, found bool, _ error) {
	row, err := s.totals.Get(ctx, string(id), "SUM")
	return row, err == nil, tablestore.IgnoreNotFound(err)
}

// list makes the copy follow META, until META is as it was read.
func (s steps) list(ctx context.Context, w *Work) (none Commit, _ error) {
	id := w.Key.ID
	mark, err := s.store.InflightMark(ctx, id)
	if err != nil {
		return none, err
	}
	for {
		before, listed, err := s.copied(ctx, id)
		if err != nil {
			return none, err
		}
		rec, err := s.store.Get(ctx, id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return none, err
		}
		s.reach(List + "/read")
		if rec.Subject.State == "" || rec.Subject.State.Gone() {
			if listed {
				err = s.totals.Delete(ctx, string(id), "SUM", before.ETag)
			} else {
				return none, nil
			}
		} else {
			_, err = s.totals.Put(ctx, total(rec.Subject), before.ETag)
		}
		if err != nil && !tablestore.Overtaken(err) {
			return none, err
		}
		s.reach(List + "/written")
		now, gone := s.store.Get(ctx, id)
		if err == nil && gone == nil && now.ETag == rec.ETag {
			return none, s.store.MarkIndexed(ctx, mark, rec.Subject.UpdatedAt)
		}
	}
}

// total is the copy of a sum in the table of totals.
func total(sum Sum) tablestore.Entity {
	text, _ := json.Marshal(sum.State)
	return tablestore.Entity{PartitionKey: string(sum.ID), RowKey: "SUM", Props: map[string]any{
		"Total": sum.Total, "State": string(text), "UpdatedAt": sum.UpdatedAt,
	}}
}

// linger is how long a worker may write of a sum that is being erased.
const linger = time.Second

// erase removes everything of a sum, META last.
func (s steps) erase(ctx context.Context, w *Work) (none Commit, _ error) {
	id := w.Key.ID
	rec, err := s.store.Get(ctx, id)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	} else if err != nil || rec.Subject.State != engine.Deleting {
		return none, err
	}
	claimed, err := s.store.Erase(ctx, id, false)
	if err != nil {
		return none, err
	}
	s.reach(Erase + "/rows")
	if err := s.totals.Delete(ctx, string(id), "SUM", tablestore.AnyETag); err != nil {
		return none, err
	}
	s.reach(Erase + "/unlisted")
	for _, container := range SumNames.Containers {
		if err := s.blobs.DeletePrefix(ctx, container, engine.Prefix(id)); err != nil {
			return none, err
		}
	}
	s.reach(Erase + "/blobs")
	if claimed || w.Again {
		return none, azq.Snooze(linger, "a worker may still write")
	}
	_, err = s.store.Erase(ctx, id, true)
	s.reach(Erase + "/gone")
	return none, err
}
