package upkeep_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// claimed makes a sum whose first step is claimed by worker and whose queue says
// nothing: tests say themselves what the reconciler sees of queues.
func (b *bench) claimed(t *testing.T, worker string) engine.Key {
	t.Helper()
	id := b.create(t)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	if err := b.queues.Queue(enginetest.Split).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := engine.Key{ID: id, Generation: 1, Step: enginetest.Split}
	if _, err := b.sums.Claim(t.Context(), key, "carrier", worker, time.Time{}); err != nil {
		t.Fatal(err)
	}
	return key
}

func (b *bench) sent(t *testing.T, queue string, want int, why string) {
	t.Helper()
	if got := b.waiting(t, queue); len(got) != want {
		t.Errorf("queue %s: %v, want %d messages: %s", queue, got, want, why)
	}
}

// front makes a queue with messages at its front that were put in at those times.
func front(id engine.ID, at ...time.Time) func(context.Context, string) (upkeep.QueueState, error) {
	var state upkeep.QueueState
	for _, inserted := range at {
		state.Front = append(state.Front, azq.Peeked{Item: azq.Item{Subject: string(id), Kind: "other"}, Inserted: inserted})
	}
	return func(context.Context, string) (upkeep.QueueState, error) { return state, nil }
}

// A step whose worker is alive and busy with it is not taken from it, however
// long it shows nothing; when the worker stops naming it, it is.
func TestLiveStepsAreNotStolen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.claimed(t, "worker-1")
	old, young := time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour)
	b.rec.OrphanAfter = time.Millisecond
	b.rec.Queue = front(engine.NewID(), old, young)
	asked := 0
	busy := []azq.Running{{Item: key.ItemID()}}
	b.rec.Workers = func(context.Context) ([]workers.Worker, error) {
		asked++
		return []workers.Worker{{Name: "worker-0"}, {Name: "worker-1", Busy: busy}}, nil
	}
	b.pass(t)
	b.sent(t, enginetest.Split, 0, "its worker is busy with it")
	other := key
	other.Index++ // of the same sum
	busy = []azq.Running{{Item: other.ItemID()}}
	b.pass(t)
	b.sent(t, enginetest.Split, 1, "its worker has forgotten it")
	if asked != 2 {
		t.Errorf("the register was read %d times in two passes", asked)
	}
}

// In a queue that moves, what was passed by is lost; one item that is put back
// for ever, and so stays the oldest, does not hide that. A message that is seen
// is not lost. Whatever the queue looks like, silence ends somewhere.
func TestLostInABusyQueue(t *testing.T) {
	t.Parallel()
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	type peek = func(engine.ID) []azq.Peeked
	others := func(at ...time.Time) peek {
		return func(engine.ID) (front []azq.Peeked) {
			for _, inserted := range at {
				front = append(front, azq.Peeked{Item: azq.Item{Subject: string(engine.NewID()), Kind: "split"}, Inserted: inserted})
			}
			return front
		}
	}
	for name, c := range map[string]struct {
		orphan time.Duration
		front  peek
		want   int
	}{
		"fresh":               {time.Hour, others(past, future), 0},
		"behind a long queue": {time.Second, others(past, past), 0},
		"passed by":           {time.Second, others(future), 1},
		"an old one put back": {time.Second, others(past, future), 1},
		"silent for long":     {100 * time.Millisecond, others(past), 1},
		"seen": {time.Second, func(id engine.ID) []azq.Peeked {
			item := azq.Item{ID: string(id) + ".STEP:00001:split:00000", Subject: string(id), Kind: enginetest.Split}
			return append(others(past, future)(id), azq.Peeked{Item: item, Inserted: past})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key := b.claimed(t, "dead worker")
			b.rec.OrphanAfter = c.orphan
			b.rec.Queue = func(context.Context, string) (upkeep.QueueState, error) {
				return upkeep.QueueState{Front: c.front(key.ID)}, nil
			}
			time.Sleep(1200 * time.Millisecond) // of silence
			b.pass(t)
			b.sent(t, enginetest.Split, c.want, name)
		})
	}
}

// An item in the poison table is left there: sending it again would make a
// poison row in every round. What is sent again leaves META, and the ETag that a
// user holds, alone.
func TestPoisonIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		step, queue string
		end         func(engine.ID) error
	}{
		{enginetest.List, enginetest.List, func(id engine.ID) error { _, err := b.sums.Cancel(t.Context(), id); return err }},
		{
			enginetest.Erase, enginetest.Erase,
			func(id engine.ID) error { _, err := b.sums.Delete(t.Context(), id, ""); return err },
		},
	} {
		id := b.create(t)
		if err := c.end(id); err != nil {
			t.Fatal(err)
		}
		clear := func() {
			t.Helper()
			if err := b.queues.Queue(c.queue).Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		before, err := b.sums.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		clear()
		b.pass(t)
		b.sent(t, c.queue, 1, "the message was lost")
		after, err := b.sums.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("META after %s was sent again (-before +after):\n%s", c.step, diff)
		}
		clear()
		if err := b.sums.GaveUp(t.Context(), id, c.step); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			b.pass(t)
		}
		b.sent(t, c.queue, 0, "it is in the poison table")
		if c.step == enginetest.Erase {
			continue
		}
		if marks, err := b.marks(t); err != nil || len(marks) != 1 {
			t.Fatalf("in flight: %v, %v; want the mark until the index follows", marks, err)
		}
		if _, err := b.sums.Change(t.Context(), id, "", func(v *enginetest.Sum) ([]engine.OutboxMessage, error) {
			v.Title = "Another"
			return []engine.OutboxMessage{declared.FollowMessage()}, nil
		}); err != nil {
			t.Fatal(err)
		}
		clear()
		b.pass(t)
		b.sent(t, c.queue, 1, "META changed, so it is worth another try")
	}
}

// Thousands of unfinished uploads cost the reconciler the list of their
// marks and nothing else, and a promise among them is still kept.
func TestEmptyUploadsCostNothing(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	const empty = 2000
	b := setup(t)
	b.rec.CreateTimeout = time.Hour // however long it takes to make them
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range empty / 50 {
				v := enginetest.Sum{Meta: engine.Meta{ID: engine.NewID(), Owner: "owner", State: engine.AwaitingUpload}}
				if _, err := b.sums.Create(t.Context(), v); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	id := b.create(t)
	b.queues.shut.Store(true)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); !errors.Is(err, errShut) {
		t.Fatal(err)
	}
	b.queues.shut.Store(false)

	wire := azuritetest.NewWire(t)
	wired := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.ConnectionString, cfg.Prefix = wire.ConnectionString(), b.account.Prefix()
	})
	b.rec.Store = newStore(wired, b.queues)
	count := func() (requests, views int) {
		for _, call := range wire.Take() {
			if requests++; call.Table == b.account.Prefix()+declared.Table {
				views++
			}
		}
		return requests, views
	}
	b.pass(t)
	requests, ofSums := count()
	t.Logf("%d marks: %d requests, %d of them to table sums", empty+1, requests, ofSums)
	if requests > 16+5 || ofSums > 3 { // a list for each shard; a view, the outbox and its row
		t.Errorf("%d requests, %d of them to table sums", requests, ofSums)
	}
	b.sent(t, enginetest.Split, 1, "it was promised")
}

// age rewrites a mark as if it had been written that long ago.
func (b *bench) age(t *testing.T, id engine.ID, by time.Duration) {
	t.Helper()
	marks := tablestore.New(b.account, engine.InflightTable)
	for row, err := range marks.Query(t.Context(), tablestore.Query{Class: tablestore.Scan}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.RowKey == string(id) {
			row.Props["Since"] = row.Time("Since").Add(-by)
			if _, err := marks.Update(t.Context(), row, row.ETag); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A sum that is in order is looked at seldom once its mark is old; a mark that
// changes is looked at again at once.
func TestHealthySumsAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); err != nil {
		t.Fatal(err)
	}
	items := func() int {
		t.Helper()
		items, err := b.rec.Pass(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	for range 2 {
		if items() != 1 {
			t.Error("a young mark is looked at in every pass")
		}
	}
	b.age(t, id, 10*time.Minute)
	if items() != 1 {
		t.Error("the mark changed")
	}
	if items() != 0 {
		t.Error("it was found healthy a moment ago")
	}
	if err := b.queues.Queue(enginetest.Split).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sums.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if items() != 1 {
		t.Error("the mark was renewed")
	}
	fresh := b.rec
	b.rec = upkeep.Reconciler[enginetest.Sum, enginetest.Plan]{Store: fresh.Store, Queue: fresh.Queue, OrphanAfter: time.Hour, Log: fresh.Log}
	if items() != 1 {
		t.Error("a new leader starts over")
	}
}

// A sum that cannot be read is reported and stepped over.
func TestPassStepsOverWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const sums = 12
	var ids []engine.ID
	b.queues.shut.Store(true)
	for range sums {
		id := b.create(t)
		if _, err := b.sums.Uploaded(t.Context(), id, epoch, "etag"); !errors.Is(err, errShut) {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	b.queues.shut.Store(false)
	broken := tablestore.Entity{PartitionKey: string(ids[5]), RowKey: "PLAN:00001", Props: map[string]any{"Doc": "{"}}
	if _, err := tablestore.New(b.account, declared.Table).Insert(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	b.rec.Log = slog.New(slog.DiscardHandler)
	if items, err := b.rec.Pass(t.Context()); err != nil || items != sums {
		t.Errorf("looked at %d sums, %v; want %d", items, err, sums)
	}
	b.sent(t, enginetest.Split, sums-1, "all but the broken one")
}

// What a late worker leaves of a purged sum is swept when the purge is long
// over; a sum that lives is not touched.
func TestRowsWithoutASumAreSwept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.create(t)
	if _, err := b.sums.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.sums.Erase(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	table := tablestore.New(b.account, declared.Table)
	for _, key := range []string{"STEP:00001:split:00000", "OUT:late", "OTHER:of a later release"} {
		if _, err := table.Insert(t.Context(), tablestore.Entity{PartitionKey: string(id), RowKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []string) {
		for row, err := range table.Query(t.Context(), tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, row.RowKey)
		}
		return keys
	}
	b.rec.SweepAfter = time.Hour
	b.pass(t)
	if len(left()) != 3 {
		t.Errorf("left %v: within the grace time a worker may still clean up itself", left())
	}
	b.age(t, id, 2*time.Hour)
	b.pass(t)
	if rows := left(); len(rows) != 0 {
		t.Errorf("rows left: %v", rows)
	}
	b.pass(t)
	if marks, err := b.marks(t); err != nil || len(marks) != 0 {
		t.Errorf("in flight: %v, %v; want nothing", marks, err)
	}
}
