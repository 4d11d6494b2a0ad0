//go:build unix

package histories_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	heldVisible = time.Minute
	heldRounds  = 2 // renewals of each lease
)

// BenchmarkLeases works on many items at once, in one process and one queue, until each lease
// was renewed twice: on 10,000 with the model of the service in a process of its own, and on
// 1,000 with Azurite, which stands still for minutes when it clears up after so many.
//
// It reports the longest time from a request that hid a message to the answer of the next one,
// as a share of the visibility; the processor's milliseconds for each renewal and for all that
// was done for a lease; heap and stacks, and goroutines. It fails when a lease is lost or an
// item is delivered twice, for which some slots stay free, and when a renewal fails or comes
// later than half of the visibility.
//
//	go test ./shared/azq/histories -run '^$' -bench Leases -benchtime 1x
func BenchmarkLeases(b *testing.B) {
	b.Run("model", func(b *testing.B) {
		connection := startModel(b)
		holdLeases(b, 10_000, func(watched *renewals) *azstore.Account {
			a, err := azstore.Open(azstore.Config{ConnectionString: connection, Transport: watched})
			if err != nil {
				b.Fatal(err)
			}
			return a
		})
	})
	b.Run("azurite", func(b *testing.B) {
		holdLeases(b, 1_000, func(watched *renewals) *azstore.Account {
			return azuritetest.AccountWith(b, func(c *azstore.Config) { c.Transport, c.Retry = watched, azstore.DefaultRetry })
		})
	})
}

func holdLeases(b *testing.B, n int, open func(*renewals) *azstore.Account) {
	for range b.N {
		watched := newRenewals()
		a := open(watched)
		client := azqtest.Open(b, a, azq.Spec{Name: brief, Kinds: []string{brief}, Pool: brief, Visibility: heldVisible})
		if _, err := azq.SendMany(b.Context(), client, make([]errand, n), nil); err != nil {
			b.Fatal(err)
		}
		h := &holders{watched: watched, end: make(chan struct{})}
		memory, used := resident(), processor(b)
		w := azqtest.Start(b, client, map[string]azq.Handler{brief: h}, func(o *azq.Options) {
			o.Pools, o.StallAfter, o.RefreshPolicy = map[string]int{brief: n + azq.MaxBatch}, time.Hour, time.Minute
		})
		patiently(b, func() error { return wants("items have begun", h.begun.Load(), n) })
		holding, began, before := processor(b), time.Now(), watched.count()
		patiently(b, func() error { return wants("leases were renewed", int64(renewed(w)), n) })
		renewals := float64(watched.count() - before)
		b.ReportMetric(renewals/time.Since(began).Seconds(), "renewals/s")
		b.ReportMetric(milliseconds(processor(b)-holding)/renewals, "ms-cpu/renewal")
		b.ReportMetric(float64(runtime.NumGoroutine())/float64(n), "goroutines/lease")
		b.ReportMetric(float64(resident()-memory)/float64(n), "B/lease")
		h.release(b, w, n)
		b.ReportMetric(milliseconds(processor(b)-used)/float64(n), "ms-cpu/lease")
		w.Drain()
		watched.judge(b, azqtest.Counts(w.Stats(), brief), n)
	}
}

// errand is data of an item.
type errand struct{}

// Kind implements azq.Payload.
func (errand) Kind() string { return brief }

// holders is a handler that holds all its items until it is told to end one.
type holders struct {
	watched *renewals
	begun   atomic.Int64
	end     chan struct{}
}

// Handle implements azq.Handler.
func (h *holders) Handle(ctx context.Context, job *azq.RawJob) error {
	h.watched.hidden(job.MessageID, job.Received)
	h.begun.Add(1)
	select {
	case <-h.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release ends the work, a part after the other: n handlers that end in one moment are not
// what is measured.
func (h *holders) release(b *testing.B, w azqtest.Worker, n int) {
	for ended := 0; ended < n; {
		for range min(n-ended, 500) {
			select {
			case h.end <- struct{}{}:
				ended++
			case <-b.Context().Done():
				b.Fatal(b.Context().Err())
			case <-time.After(heldVisible):
				b.Fatalf("%d handlers ended, want %d", ended, n)
			}
		}
		patiently(b, func() error { return wants("items are done", azqtest.Counts(w.Stats(), brief).Completed, ended) })
	}
}

// renewals is a transport that notes when messages were hidden.
type renewals struct {
	client *http.Client

	mu      sync.Mutex
	since   map[string]time.Time // when the request was sent that hid a message last, by its id
	longest time.Duration        // until the next of that message was answered
	number  int
}

func newRenewals() *renewals {
	transport := http.DefaultTransport.(*http.Transport).Clone() // with the limits of azstore's
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 512, 256, 3*time.Second
	return &renewals{client: &http.Client{Transport: transport}, since: map[string]time.Time{}}
}

// Do implements azcore's policy.Transporter.
func (r *renewals) Do(request *http.Request) (*http.Response, error) {
	asked := time.Now()
	got, err := r.client.Do(request)
	if err == nil && got.StatusCode == http.StatusNoContent && request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/messages/") {
		r.renewed(path.Base(request.URL.Path), asked)
	}
	return got, err
}

func (r *renewals) hidden(message string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since[message] = asked
}

func (r *renewals) renewed(message string, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = max(r.longest, time.Since(r.since[message]))
	r.since[message] = asked
	r.number++
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.number
}

// judge compares what has happened with what must have.
func (r *renewals) judge(b *testing.B, s azq.QueueStats, n int) {
	r.client.CloseIdleConnections()
	lost := s.StaleRenewals + s.ReceiptsLost + s.LeasesEnding + s.StaleDeletes + max(s.Received-int64(n), 0)
	b.ReportMetric(float64(lost), "leases-lost")
	b.ReportMetric(float64(r.longest)/float64(heldVisible), "gap/visibility")
	if lost != 0 || s.Received != int64(n) || s.RenewErrors+s.SettleErrors != 0 {
		b.Errorf("%d items, %+v", n, s)
	}
	if r.longest > heldVisible/2 {
		b.Errorf("a renewal was answered %v after the one before, want at most half of %v", r.longest, heldVisible)
	}
}

// renewed is how many items in progress had their lease renewed often enough.
func renewed(w azqtest.Worker) (n int) {
	for _, item := range w.Stats().Running {
		if item.Renewals >= heldRounds {
			n++
		}
	}
	return n
}

func patiently(b *testing.B, check func() error) { azuritetest.Eventually(b, 2*time.Minute, check) }

func wants(what string, got int64, want int) error {
	if got != int64(want) {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// resident is the memory of heap and stacks, after a collection.
func resident() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// processor is the time that the process has had of the processors.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
