package middleware

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

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
// search words, and SAS signatures have no business in a log.
func Log(observe func(r *http.Request, status int, took time.Duration)) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
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
