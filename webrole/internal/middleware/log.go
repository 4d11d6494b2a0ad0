// Package middleware is what every request passes before a handler sees it: deadlines,
// request id and log line, recovery, security headers, host allow-list, cross-origin
// protection, and the rate limit; for pages, API and playback alike.
//
// Next: webrole/internal/httpapi, the routes behind it.
package middleware

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// RequestIDHeader carries the request's id, in and out.
const RequestIDHeader = "X-Request-Id"

// RequestID keeps the caller's id when it is harmless, or makes one.
func RequestID(c *gin.Context) {
	id := c.GetHeader(RequestIDHeader)
	if !harmless.MatchString(id) {
		id = rand.Text()
	}
	c.Header(RequestIDHeader, id)
}

// harmless keeps log lines and headers free of surprises.
var harmless = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Log writes one line per request. It logs the path only: queries may hold
// search words, and SAS signatures have no business in a log. The span gets the route's name,
// never the path or the client's address: a collector need not know who watches what.
func Log(observe func(r *http.Request, status int, took time.Duration)) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		span := trace.SpanFromContext(c.Request.Context())
		if c.FullPath() != "" {
			span.SetName(c.Request.Method + " " + c.FullPath())
			span.SetAttributes(attribute.String("http.route", c.FullPath()))
		}
		for _, key := range []string{"url.path", "client.address", "network.peer.address"} { // of otelhttp
			span.SetAttributes(attribute.String(key, ""))
		}
		defer func() {
			took, status := time.Since(start), c.Writer.Status()
			observe(c.Request, status, took)
			level := slog.LevelInfo
			if c.Request.Method == http.MethodGet && status < http.StatusBadRequest {
				level = slog.LevelDebug // what players and probes read all day
			}
			slog.Log(c.Request.Context(), level, "request", "request", c.Writer.Header().Get(RequestIDHeader), "method", c.Request.Method,
				"path", c.Request.URL.Path, "status", status, "bytes", max(0, c.Writer.Size()), "took", took)
		}()
		c.Next()
	}
}

// Recover turns a panic into a 500 problem, or breaks the connection when the
// answer has begun: half an answer must not look like a whole one.
func Recover(c *gin.Context) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // a sentinel that net/http compares the same way
			panic(cause)
		}
		slog.ErrorContext(c.Request.Context(), "panic", "request", c.Writer.Header().Get(RequestIDHeader), "path", c.Request.URL.Path,
			"cause", cause, "stack", string(debug.Stack()))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler)
		}
		problem.Abort(c, problem.New(problem.Internal, "Something went wrong on our side."))
	}()
	c.Next()
}

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

// Headers sets the security headers of every answer. blobs is the address of the blob service,
// where pages may send parts to; instance, unless it is empty, tells a starter its own child.
func Headers(blobs, instance string) gin.HandlerFunc {
	csp := strings.Join([]string{
		"default-src 'self'",
		"connect-src 'self' " + strings.TrimSuffix(blobs, "/") + "/", // and what is below
		"img-src 'self' data: blob:",
		"media-src 'self' blob: data:", // Media Source Extensions; hls.js gives each list of captions an empty file first
		"worker-src 'self' blob:",
		"object-src 'none'",
		"base-uri 'none'",
		"form-action 'self'",
		"frame-ancestors 'none'",
	}, "; ")
	return func(c *gin.Context) {
		if instance != "" {
			c.Header("X-Cutroom-Instance", instance)
		}
		c.Header("Content-Security-Policy", csp)
		c.Header("X-Content-Type-Options", "nosniff")
		c.Header("Referrer-Policy", "no-referrer")
		c.Header("X-Frame-Options", "DENY")
		c.Header("Cross-Origin-Opener-Policy", "same-origin")
		c.Header("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	}
}

// Hosts refuses requests for a name that is not ours: a page of another site
// that rebinds its own name to 127.0.0.1 ends here (421 host_not_allowed).
// Health checks by address are let through. An empty list allows every name.
func Hosts(allowed []string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if len(allowed) > 0 && !isHealth(c.Request) && !slices.Contains(allowed, strings.ToLower((&url.URL{Host: c.Request.Host}).Hostname())) {
			problem.Abort(c, problem.New(problem.HostNotAllowed, "This server does not answer for that host name."))
		}
	}
}

var protection = http.NewCrossOriginProtection()

// SameOrigin refuses unsafe requests that a browser sends for another site's
// page (403 cross_origin). Clients that are not browsers pass.
func SameOrigin(c *gin.Context) {
	if err := protection.Check(c.Request); err != nil {
		problem.Abort(c, problem.New(problem.CrossOrigin, "Another site's page may not do this.").Because(err))
	}
}

func isHealth(r *http.Request) bool {
	return r.URL.Path == "/livez" || r.URL.Path == "/readyz"
}
