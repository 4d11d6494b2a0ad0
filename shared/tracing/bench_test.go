package tracing_test

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

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(collecting) != "" {
		collect()
		return
	}
	azuritetest.Main(m)
}

const benchItems = 400

// BenchmarkSpans drains the same backlog with a handler that does nothing, in turn without
// spans and while every span is sent over OTLP/HTTP (docs/tracing.md). It reports the rates,
// and the median of the ratios of the rounds.
//
//	go test . -run '^$' -bench Spans -benchtime 5x
func BenchmarkSpans(b *testing.B) {
	client := azqtest.Open(b, azuritetest.Account(b), azq.Spec{
		Name: "jobs", Kinds: []string{"work"}, Pool: "light", Visibility: time.Minute, MaxIdlePoll: 200 * time.Millisecond,
	})
	provider := sendingSpans(b)
	var rates, traced, ratios []float64
	for i := range b.N {
		var seconds [2]float64 // without, with
		for j := range seconds {
			with := (i + j) % 2
			fill(b, client)
			if with == 1 {
				spansOf().provider.Store(provider)
			}
			began := time.Now()
			drain(b, client)
			seconds[with] = time.Since(began).Seconds()
			spansOf().provider.Store(nil)
		}
		rates, traced = append(rates, benchItems/seconds[0]), append(traced, benchItems/seconds[1])
		ratios = append(ratios, seconds[0]/seconds[1])
	}
	b.ReportMetric(median(rates), "items/s")
	b.ReportMetric(median(traced), "traced-items/s")
	b.ReportMetric(median(ratios), "untraced/traced")
}

func fill(b *testing.B, client *azq.Client) {
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			for i := range benchItems / 8 {
				item, err := azq.NewItem("work", "subject", fmt.Sprint("i", s, "-", i), nil)
				if err != nil {
					b.Error(err)
				}
				azqtest.Send(b, client, "jobs", item)
			}
		})
	}
	senders.Wait()
}

func drain(b *testing.B, client *azq.Client) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var done sync.WaitGroup
	done.Add(benchItems)
	c := client.With(azq.Options{
		Handlers: map[string]azq.Handler{"work": azq.HandlerFunc(func(context.Context, *azq.RawJob) error { done.Done(); return nil })},
		Pools:    map[string]int{"light": 16}, StopWithin: 5 * time.Second,
	})
	finished := make(chan error, 1)
	go func() { finished <- c.Run(ctx) }()
	done.Wait()
	cancel() // draining still deletes what is done
	if err := <-finished; err != nil {
		b.Fatal(err)
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
