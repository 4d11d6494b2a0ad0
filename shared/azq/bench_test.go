package azq_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

const benchItems = 400 // a backlog that the emulator still scans quickly

// backlog is a queue that is filled and drained, again and again.
type backlog struct {
	testing.TB
	account  *azstore.Account
	client   *azq.Client
	receives atomic.Int64 // requests, and all others that are a write of a queue
}

// openBacklog starts an emulator that keeps its data on disk. In memory it keeps each message
// that was ever written until it clears up, once a minute, and for each that goes then it sorts
// those that stay: after ten thousand it answers nothing for minutes.
func openBacklog(t testing.TB) *backlog {
	if testing.Short() {
		t.Skip("needs the storage emulator, which -short does not start")
	}
	server, err := azurite.Start(t.Context(), azurite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &backlog{TB: t}
	b.account, err = azstore.Open(azstore.Config{ConnectionString: server.ConnectionString(), Seen: func(try azstore.Try) {
		if try.Kind == azstore.QueueWrite {
			b.receives.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.account.CloseIdle)
	b.client = azqtest.Open(t, b.account, oneQueue(time.Minute))
	return b
}

// cost is what the draining of a backlog took, for each item but for the time.
type cost struct {
	took                    time.Duration
	receives, allocs, bytes float64
}

// cost fills the queue and measures drain.
func (b *backlog) cost(slots int, drain func(*backlog, int)) cost {
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() { send(b, b.client, jobs, ids(fmt.Sprint("i", s, "-"), benchItems/8)...) })
	}
	senders.Wait()
	if b.Failed() { // the rest would wait for the missing
		b.FailNow()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	receives, began := b.receives.Load(), time.Now()
	drain(b, slots)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return cost{
		took: took, receives: float64(b.receives.Load()-receives) / benchItems,
		allocs: float64(after.Mallocs-before.Mallocs) / benchItems,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / benchItems,
	}
}

// BenchmarkRuntime drains the same backlog with a handler that does nothing, in
// turn with three programs of 16 slots, and of 32:
//
//	loop      the bare SDK: a goroutine for each slot that receives one message and deletes it
//	prefetch  the bare SDK: one goroutine that receives 32 ahead, and one for each slot that deletes
//	runtime   this package
//
// It reports the rates, and the runtime's share of each of the others: the median of the
// rounds, in each of which all three drain the same backlog; and for each item the requests
// that receive, and what is allocated. Messages of the prefetching one wait in the process
// while their visibility runs out, which is why we do not do that.
//
//	go test . -run '^$' -bench Runtime -benchtime 5x
func BenchmarkRuntime(b *testing.B) {
	for _, slots := range []int{16, 32} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) { compare(b, slots) })
	}
}

func compare(b *testing.B, slots int) {
	queue := openBacklog(b)
	programs := []struct {
		name  string
		drain func(*backlog, int)
		costs []cost // by round
	}{
		{name: "loop", drain: drainLoop},
		{name: "prefetch", drain: drainPrefetch},
		{name: "runtime", drain: drainWithRuntime},
	}
	for i := range b.N {
		for j := range programs {
			if i%2 == 1 {
				j = len(programs) - 1 - j
			}
			p := &programs[(i/2+j)%len(programs)] // none always runs on the warmest emulator, or after the same one
			p.costs = append(p.costs, queue.cost(slots, p.drain))
		}
	}
	ours := programs[2].costs
	for _, p := range programs {
		of := func(number func(cost, cost) float64) float64 {
			numbers := make([]float64, b.N)
			for i, c := range p.costs {
				numbers[i] = number(c, ours[i])
			}
			return median(numbers)
		}
		b.ReportMetric(of(func(c, _ cost) float64 { return benchItems / c.took.Seconds() }), p.name+"-items/s")
		b.ReportMetric(of(func(c, _ cost) float64 { return c.receives }), p.name+"-receives/item")
		b.ReportMetric(of(func(c, _ cost) float64 { return c.allocs }), p.name+"-allocs/item")
		b.ReportMetric(of(func(c, _ cost) float64 { return c.bytes }), p.name+"-B/item")
		if p.name != "runtime" {
			b.ReportMetric(of(func(c, ours cost) float64 { return c.took.Seconds() / ours.took.Seconds() }), "runtime/"+p.name)
		}
	}
}

// An item allocates no more than in loops over the bare SDK, which ask once for each: what
// leases, turns, spans and decoding cost is what receiving several at once saves.
func TestAllocationsOfAnItem(t *testing.T) { // alone: all that runs beside it would be counted
	queue := openBacklog(t)
	var ours, theirs cost
	for range 3 { // requests that are repeated are counted, too
		theirs, ours = queue.cost(16, drainLoop), queue.cost(16, drainWithRuntime)
		t.Logf("allocations for an item: %.0f, of loops over the SDK %.0f", ours.allocs, theirs.allocs)
		if ours.allocs <= mostAllocs && ours.allocs <= 1.1*theirs.allocs {
			return
		}
	}
	t.Errorf("want at most %d, and at most a tenth more than the loops", mostAllocs)
}

// mostAllocs bounds the allocations for one item: its share of a receive, its delivery, its delete.
const mostAllocs = 500

func median(of []float64) float64 {
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

func drainLoop(b *backlog, slots int) {
	q := b.account.Queue(jobs)
	var workers sync.WaitGroup
	for range slots {
		workers.Go(func() {
			for {
				got, err := q.DequeueMessage(b.Context(), &azqueue.DequeueMessageOptions{VisibilityTimeout: new(int32(60))})
				if err != nil {
					b.Error(err)
					return
				}
				if len(got.Messages) == 0 {
					return
				}
				if _, err := q.DeleteMessage(b.Context(), *got.Messages[0].MessageID, *got.Messages[0].PopReceipt, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

func drainPrefetch(b *backlog, slots int) {
	q := b.account.Queue(jobs)
	type message struct{ id, receipt string }
	found := make(chan message, azq.MaxBatch)
	var deleters sync.WaitGroup
	for range slots {
		deleters.Go(func() {
			for m := range found {
				if _, err := q.DeleteMessage(b.Context(), m.id, m.receipt, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for got := 0; got < benchItems && !b.Failed(); {
		batch, err := q.DequeueMessages(b.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(azq.MaxBatch)), VisibilityTimeout: new(int32(60))})
		if err != nil {
			b.Fatal(err)
		}
		for _, m := range batch.Messages {
			got++
			found <- message{*m.MessageID, *m.PopReceipt}
		}
	}
	close(found)
	deleters.Wait()
}

func drainWithRuntime(b *backlog, slots int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var done sync.WaitGroup
	done.Add(benchItems)
	h := azq.HandlerFunc(func(context.Context, *azq.RawJob) error { done.Done(); return nil })
	c := b.client.With(azq.Options{
		Handlers: map[string]azq.Handler{step: h}, Pools: map[string]int{light: slots}, StopWithin: 5 * time.Second,
	})
	finished := make(chan error, 1)
	go func() { finished <- c.Run(ctx) }()
	done.Wait()
	cancel() // draining still deletes what is done
	if err := <-finished; err != nil {
		b.Fatal(err)
	}
	if s := azqtest.Counts(c.Stats(), jobs); s.Completed != benchItems {
		b.Errorf("counters %+v", s)
	}
}
