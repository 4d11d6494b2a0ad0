package tracing_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/shared/tracing"
)

// A line within a span says which one, also from a logger that was made before it, and
// no other line does.
func TestLinesOfSpansSayWhich(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}})
	inside := trace.ContextWithSpanContext(t.Context(), span)
	var out bytes.Buffer
	log := slog.New(tracing.Logs(slog.NewJSONHandler(&out, nil)))
	line := func() (line map[string]any) {
		defer out.Reset()
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		return line
	}
	for name, l := range map[string]*slog.Logger{"plain": log, "with attributes": log.With("video", "v")} {
		l.InfoContext(inside, "inside")
		if got := line(); got["traceId"] != span.TraceID().String() || got["spanId"] != span.SpanID().String() {
			t.Errorf("%s, within a span: %v", name, got)
		}
		l.InfoContext(t.Context(), "outside")
		if got := line(); got["traceId"] != nil || got["spanId"] != nil {
			t.Errorf("%s, outside of spans: %v", name, got)
		}
	}
}
