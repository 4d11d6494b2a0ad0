package azq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const (
	benchSlots = 16
	benchItems = 400 // a backlog that the emulator still scans quickly
)

// BenchmarkRuntime drains the same backlog with a handler that does nothing, in
// turn with four programs of 16 slots:
//
//	loop      the bare SDK: 16 goroutines that receive one message and delete it
//	prefetch  the bare SDK: one goroutine that receives 32 ahead, 16 that delete
//	runtime   this package
//	traced    the same, while every span is sent over OTLP/HTTP (docs/tracing.md)
//
// It reports the rates, and the runtime's share of each of the others: the median of the
// rounds, in each of which all four drain the same backlog. 0.9 of the loop and more means that leases, turns and bookkeeping are free where there is no
// work at all. The prefetching one is faster because its deleters never wait for
// a receive; its messages wait in the process while their visibility runs out,
// which is why we do not do that.
//
//	go test . -run '^$' -bench Runtime -benchtime 5x
func BenchmarkRuntime(b *testing.B) {
	a := azuritetest.Account(b)
	qs := azqtest.Open(b, a, oneQueue(time.Minute))
	provider := sendingSpans(b)
	programs := []struct {
		name  string
		drain func()
		took  []time.Duration // by round
	}{
		{name: "loop", drain: func() { drainLoop(b, a.Queue(jobs)) }},
		{name: "prefetch", drain: func() { drainPrefetch(b, a.Queue(jobs)) }},
		{name: "runtime", drain: func() { drainWithRuntime(b, qs) }},
		{name: "traced", drain: func() {
			spansOf().provider.Store(provider)
			defer spansOf().provider.Store(nil)
			drainWithRuntime(b, qs)
		}},
	}
	for i := range b.N {
		for j := range programs {
			if i%2 == 1 {
				j = len(programs) - 1 - j
			}
			p := &programs[(i/2+j)%len(programs)] // none always runs on the warmest emulator, or after the same one
			var senders sync.WaitGroup
			for s := range 8 {
				senders.Go(func() { send(b, qs, jobs, ids(fmt.Sprint("i", s, "-"), benchItems/8)...) })
			}
			senders.Wait()
			began := time.Now()
			p.drain()
			p.took = append(p.took, time.Since(began))
		}
	}
	runtime := programs[2].took
	for _, p := range programs {
		rates, shares := make([]float64, b.N), make([]float64, b.N)
		for i, took := range p.took {
			rates[i], shares[i] = benchItems/took.Seconds(), took.Seconds()/runtime[i].Seconds()
		}
		b.ReportMetric(median(rates), p.name+"-items/s")
		if p.name != "runtime" {
			b.ReportMetric(median(shares), "runtime/"+p.name)
		}
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// spansOf makes this package's spans with a provider while it has one. A process can set
// its provider once only, and a benchmark runs several times.
var spansOf = sync.OnceValue(func() *atWill {
	w := &atWill{}
	otel.SetTracerProvider(w)
	return w
})

type atWill struct {
	noop.TracerProvider
	provider atomic.Pointer[sdktrace.TracerProvider]
}

func (w *atWill) Tracer(name string, _ ...trace.TracerOption) trace.Tracer {
	return tracerAtWill{will: w, name: name}
}

type tracerAtWill struct {
	noop.Tracer
	will *atWill
	name string
}

func (t tracerAtWill) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if p := t.will.provider.Load(); p != nil {
		return p.Tracer(t.name).Start(ctx, name, options...)
	}
	return t.Tracer.Start(ctx, name, options...)
}

// collecting is the variable that makes a copy of the test binary a collector of spans.
const collecting = "CUTROOM_TEST_COLLECTOR"

// collect reads what is sent to it and forgets it, until its standard input ends. Its
// first line of output is its address, its second how many bytes came.
func collect() {
	var received atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
	}))
	fmt.Println(collector.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	collector.Close()
	fmt.Println(received.Load())
}

// sendingSpans returns a provider whose spans all go to a collector in a process of its
// own, as it has on a machine that works.
func sendingSpans(b *testing.B) *sdktrace.TracerProvider {
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this binary
	cmd.Env = append(os.Environ(), collecting+"=1")
	end, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	exporter, err := otlptracehttp.New(b.Context(), otlptracehttp.WithEndpointURL(lines.Text()))
	if err != nil {
		b.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	b.Cleanup(func() {
		err := provider.Shutdown(context.Background()) // which sends the rest
		_ = end.Close()
		lines.Scan()
		sent, _ := strconv.Atoi(lines.Text())
		if err = errors.Join(err, cmd.Wait()); err != nil || sent < b.N*benchItems*100 {
			b.Errorf("%d bytes of spans were sent: %v", sent, err)
		}
	})
	return provider
}

func drainLoop(b *testing.B, q *azqueue.QueueClient) {
	var workers sync.WaitGroup
	for range benchSlots {
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

func drainPrefetch(b *testing.B, q *azqueue.QueueClient) {
	type message struct{ id, receipt string }
	found := make(chan message, azq.MaxBatch)
	var deleters sync.WaitGroup
	for range benchSlots {
		deleters.Go(func() {
			for m := range found {
				if _, err := q.DeleteMessage(b.Context(), m.id, m.receipt, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for got := 0; got < benchItems; {
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

func drainWithRuntime(b *testing.B, qs *azq.Client) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var done sync.WaitGroup
	done.Add(benchItems)
	h := azq.HandlerFunc(func(context.Context, *azq.RawJob) error { done.Done(); return nil })
	c := qs.With(azq.Options{
		Handlers: map[string]azq.Handler{step: h}, Pools: map[string]int{light: benchSlots}, StopWithin: 5 * time.Second,
	})
	finished := make(chan error, 1)
	go func() { finished <- c.Run(ctx) }()
	done.Wait()
	cancel() // draining still deletes what is done
	if err := <-finished; err != nil {
		b.Fatal(err)
	}
	if s := c.Stats().Queue(jobs); s.Completed != benchItems {
		b.Errorf("counters %+v", s)
	}
}
