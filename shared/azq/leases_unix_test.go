//go:build unix

package azq_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	manyLeases = 1_000

	// manyVisible is long enough for an emulator of one core: it looks through all messages
	// for every renewal.
	manyVisible = 5 * time.Minute
)

// holders is a handler that holds all its items until it is told to end.
type holders struct {
	begun atomic.Int64
	end   chan struct{}
}

func (h *holders) Handle(ctx context.Context, _ *azq.RawJob) error {
	h.begun.Add(1)
	select {
	case <-h.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// BenchmarkLeases works on 1,000 items at once, in one process and one queue, until every
// lease was renewed, and reports what that round took: its seconds from the first renewal to
// the last, which the leases spread by themselves; the requests' median and longest; this
// process's memory and processor. It fails when a lease is lost, late, or renewed with an
// error, and when an item is delivered twice.
//
//	go test . -run '^$' -bench Leases -benchtime 1x
func BenchmarkLeases(b *testing.B) {
	for range b.N {
		holdLeases(b)
	}
}

func holdLeases(b *testing.B) {
	var mu sync.Mutex
	var took []time.Duration // by renewal
	var at []time.Time
	a := azuritetest.AccountWith(b, func(c *azstore.Config) {
		c.Retry = azstore.DefaultRetry
		c.Seen = func(try azstore.Try) {
			if try.Kind == azstore.QueueWrite {
				mu.Lock()
				defer mu.Unlock()
				took, at = append(took, try.Took), append(at, time.Now())
			}
		}
	})
	client := azqtest.Open(b, a, oneQueue(manyVisible))
	var senders errgroup.Group
	senders.SetLimit(32)
	for _, id := range ids("i", manyLeases) {
		senders.Go(func() error { return client.SendItem(b.Context(), jobs, newItem(b, id), 0) })
	}
	if err := senders.Wait(); err != nil {
		b.Fatal(err)
	}
	before := resident()
	h := &holders{end: make(chan struct{})}
	began := time.Now()
	w, drain := run(b, client, h, func(o *azq.Options) {
		o.Pools, o.StallAfter, o.RefreshPolicy = map[string]int{light: manyLeases}, time.Hour, time.Minute
	})
	patiently(b, func() error { return wants("items have begun", h.begun.Load(), manyLeases) })
	b.ReportMetric(time.Since(began).Seconds(), "s-to-begin")
	mu.Lock()
	took, at = nil, nil
	mu.Unlock()
	used := processor(b)
	patiently(b, func() error {
		renewed := 0
		for _, item := range w.Stats().Running {
			if item.Renewals > 0 {
				renewed++
			}
		}
		return wants("leases were renewed", int64(renewed), manyLeases)
	})
	b.ReportMetric(float64(processor(b)-used)/float64(time.Millisecond)/manyLeases, "ms-cpu/renewal")
	b.ReportMetric(float64(resident()-before)/manyLeases/1024, "KiB/lease")
	mu.Lock()
	slices.Sort(took)
	b.ReportMetric(at[len(at)-1].Sub(at[0]).Seconds(), "s-round")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-renewal-median")
	b.ReportMetric(took[len(took)-1].Seconds(), "s-renewal-longest")
	mu.Unlock()
	close(h.end)
	patiently(b, func() error { return wants("items are done", w.Stats().Queue(jobs).Completed, manyLeases) })
	drain()
	s := w.Stats().Queue(jobs)
	troubles := s.RenewErrors + s.StaleRenewals + s.ReceiptsLost + s.LeasesEnding + s.StaleDeletes + s.SettleErrors
	if h.begun.Load() != manyLeases || s.Received != manyLeases || troubles != 0 {
		b.Errorf("%d deliveries; %+v", h.begun.Load(), s)
	}
}

func patiently(b *testing.B, check func() error) { azuritetest.Eventually(b, 10*time.Minute, check) }

func wants(what string, got, want int64) error {
	if got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

// resident is the memory that the process has from the system, after a collection.
func resident() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// processor is the time that the process has had of the processors.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
