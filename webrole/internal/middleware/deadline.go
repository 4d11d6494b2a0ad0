package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// How long a request may take. docs/patterns/deadlines-and-backpressure.md says
// why, and what a client sees.
const (
	// WorkTime is for the work on a request, from the end of its body to the first
	// byte of the answer: a second less than the 10 s that clients are promised.
	WorkTime = 9 * time.Second
	// bodyTime is for a whole body, read or not.
	bodyTime = 10 * time.Second
	// drainTime is for the rest of a body that the handler did not read. net/http
	// waits for it before it sends a short answer.
	drainTime = 2 * time.Second
	// callTime is for one storage call with its repetitions. It bounds what has no
	// deadline: uploads, imports, downloads, and work that a client may not cut off.
	callTime = 30 * time.Second
)

// A body with a pace of its own may keep us waiting for paceSpan, and each byte makes up for
// some of that: a slower client holds a connection and buffers for nothing.
const (
	paceSpan = 30 * time.Second
	perByte  = time.Second / (16 << 10)
)

// Deadline bounds the time of every request, so it has to stand before all that
// may answer. The request's context ends when the work takes longer than work, and
// its body has to arrive within 10 s. While a handler reads the body the first
// clock stands still. A handler that streams says so with StreamsIn or StreamsOut.
func Deadline(work time.Duration) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := context.WithCancelCause(azstore.WithCallLimit(c.Request.Context(), callTime))
		defer cancel(nil)
		k := &clock{Context: ctx, work: work, timer: time.AfterFunc(work, func() { cancel(context.DeadlineExceeded) })}
		defer k.stop()
		k.start()
		c.Set(clockKey, k)
		c.Request = c.Request.WithContext(k)
		if given := c.Request.Body; given != nil && given != http.NoBody {
			b := &body{ReadCloser: given, clock: k, control: http.NewResponseController(c.Writer), left: paceSpan}
			c.Request.Body = b
			_ = b.control.SetReadDeadline(time.Now().Add(bodyTime)) // fails without a connection: in tests
			defer b.leave()
		}
		c.Next()
	}
}

// StreamsIn gives the body of r its own pace: it may take as long as it likes
// while it moves. From the first read on the request has no deadline.
func StreamsIn(r *http.Request) {
	if b, is := r.Body.(*body); is {
		b.paced = true
	}
}

// StreamsOut takes the deadline from a request: its answer is about to be sent and takes
// as long as the client needs.
func StreamsOut(c *gin.Context) {
	if k, is := c.Value(clockKey).(*clock); is {
		k.stop()
	}
}

const clockKey = "cutroom.clock"

// clock is a context whose deadline can be moved. Its error is that of a
// cancelled context; the cause is context.DeadlineExceeded.
type clock struct {
	context.Context
	work  time.Duration // how long it runs
	timer *time.Timer
	ends  atomic.Pointer[time.Time] // nil: it stands still
}

// Deadline implements context.Context: storage calls fit their repetitions into it.
func (c *clock) Deadline() (ends time.Time, runs bool) {
	if at := c.ends.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

func (c *clock) start() {
	c.ends.Store(new(time.Now().Add(c.work)))
	c.timer.Reset(c.work)
}

func (c *clock) stop() {
	c.timer.Stop()
	c.ends.Store(nil)
}

type body struct {
	io.ReadCloser
	clock   *clock
	control *http.ResponseController
	paced   bool
	left    time.Duration // that a paced body may still keep us waiting
	over    bool          // its end, or an error, was read
}

// Read implements io.Reader. Only the time spent waiting for the client counts,
// so a slow storage service is not blamed on it. A body that comes too slowly answers
// 408 request_timeout, one that breaks off 400 body_incomplete.
func (b *body) Read(p []byte) (int, error) {
	b.clock.stop()
	start := time.Now()
	if b.paced {
		if err := b.control.SetReadDeadline(start.Add(b.left)); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.left = min(paceSpan, b.left-time.Since(start)+time.Duration(n)*perByte)
	if err == nil {
		return n, nil
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = problem.New(problem.RequestTimeout, "The body came too slowly.").Because(err)
	case !errors.Is(err, io.EOF):
		err = problem.New(problem.BodyIncomplete, "The body ended before its Content-Length.").Because(err)
	}
	b.over = true
	if errors.Is(err, io.EOF) {
		// The server listens on the connection from here on, and would take the
		// deadline for the client's end.
		_ = b.control.SetReadDeadline(time.Time{})
	} else {
		_ = b.control.SetReadDeadline(time.Now()) // it must not wait for the rest
	}
	if !b.paced {
		b.clock.start()
	}
	return n, err
}

// leave gives the unread rest of a body a moment, and no more: net/http
// reads it before it answers, to keep the connection.
func (b *body) leave() {
	if !b.over {
		_ = b.control.SetReadDeadline(time.Now().Add(drainTime))
	}
}
