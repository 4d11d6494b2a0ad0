package middleware

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Span makes a span of every request but those of probes and scrapers, and of streams,
// which have no end of their own. A trace context that a client sends becomes a link: a
// stranger chooses neither our trace ids nor what is sampled.
func Span(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "http",
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return !isHealth(r) && r.URL.Path != "/metrics" && !strings.HasSuffix(r.URL.Path, "/events")
		}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }))
}

// Route names the span of a request by its route, never by its path, which may say more
// than a collector should know and has no bound.
func Route(c *gin.Context) {
	if span := trace.SpanFromContext(c.Request.Context()); span.IsRecording() && c.FullPath() != "" {
		span.SetName(c.Request.Method + " " + c.FullPath())
		span.SetAttributes(attribute.String("http.route", c.FullPath()))
	}
	c.Next()
}
