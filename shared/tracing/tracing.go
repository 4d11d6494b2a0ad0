// Package tracing sends what a role does as OpenTelemetry spans, if the variables of the SDK name
// a collector. One trace follows a video from its upload to "ready": docs/tracing.md.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/shared/product"
)

const stopWithin = 3 * time.Second

// Traced returns run with its spans sent and their ids in the log. nameVariable has the name of
// the process; else it is that of the host, with its pid.
func Traced(role, nameVariable string, run func(context.Context, func(string) string) error) func(context.Context, func(string) string) error {
	return func(ctx context.Context, getenv func(string) string) error {
		host, _ := os.Hostname() // empty is as good a name as any
		stop, err := start(ctx, role, cmp.Or(getenv(nameVariable), fmt.Sprintf("%s-%d", host, os.Getpid())))
		if err != nil {
			return err
		}
		defer stop()
		slog.SetDefault(slog.New(Logs(slog.Default().Handler())))
		return run(ctx, getenv)
	}
}

// start makes the process send its spans as service and instance. Call stop when the
// work has ended: it sends the remaining spans. A collector that is away delays nothing, and
// its spans are dropped.
func start(ctx context.Context, service, instance string) (stop func(), _ error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of spans: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", product.Version()), attribute.String("service.instance.id", instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process to the collector: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	otel.SetTracerProvider(provider)
	// The SDK reports on a logger of its own otherwise.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("spans are not sent", "error", err) }))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			slog.Warn("the last spans are not sent", "error", err)
		}
	}, nil
}

type logs struct{ slog.Handler }

// Logs returns a handler that adds traceId and spanId to the lines of spans.
func Logs(h slog.Handler) slog.Handler { return logs{h} }

func (l logs) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("traceId", span.TraceID().String()), slog.String("spanId", span.SpanID().String()))
	}
	return l.Handler.Handle(ctx, record)
}

func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler { return logs{l.Handler.WithAttrs(attrs)} }

func (l logs) WithGroup(name string) slog.Handler { return logs{l.Handler.WithGroup(name)} }
