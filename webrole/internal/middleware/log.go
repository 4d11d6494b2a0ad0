package middleware

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// RequestIDHeader carries the request's id, in and out.
const RequestIDHeader = "X-Request-Id"

// RequestID keeps the caller's id when it is harmless, or makes one.
func RequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(RequestIDHeader)
		if !harmless.MatchString(id) {
			id = rand.Text()
		}
		w.Header().Set(RequestIDHeader, id)
		next.ServeHTTP(w, r)
	})
}

// harmless keeps log lines and headers free of surprises.
var harmless = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Log writes one line per request. It logs the path only: queries may hold
// search words, and SAS signatures have no business in a log.
func Log(observe func(r *http.Request, status int, took time.Duration)) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			rec := &recorder{ResponseWriter: w}
			defer func() {
				took := time.Since(start)
				observe(r, rec.Status(), took)
				slog.Log(r.Context(), level(r, rec.Status()), "request", "request", w.Header().Get(RequestIDHeader), "method", r.Method,
					"path", r.URL.Path, "status", rec.Status(), "bytes", rec.bytes, "took", took)
			}()
			next.ServeHTTP(rec, r)
		})
	}
}

// level keeps what players and probes read all day out of the log.
func level(r *http.Request, status int) slog.Level {
	if r.Method == http.MethodGet && status < http.StatusBadRequest {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// Recover turns a panic into a 500 problem, or breaks the connection when the
// answer has begun: half an answer must not look like a whole one.
func Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // a sentinel that net/http compares the same way
				panic(cause)
			}
			slog.ErrorContext(r.Context(), "panic", "request", w.Header().Get(RequestIDHeader), "path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
			if rec.status != 0 {
				panic(http.ErrAbortHandler)
			}
			problem.Write(w, r, problem.New(problem.Internal, "Something went wrong on our side."))
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder remembers what was answered. Unwrap lets http.ResponseController and
// io.Copy reach the real writer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) Status() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher, which Gin asks for without looking whether it is there.
func (r *recorder) Flush() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush() // the next write tells of a broken connection
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
