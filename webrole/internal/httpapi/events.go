package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/edge"
)

const (
	// quietFor is the longest silence on a stream of events. Proxies close connections
	// on which nothing happens, most of them after 60 s.
	quietFor = 15 * time.Second
	// writeTimeout is how long a client may not read before it is cut off.
	writeTimeout = 10 * time.Second
	// reconnect is what browsers wait before they ask again, in milliseconds.
	reconnect = 2000
)

// WatchBoard implements GET /ops/events. Until there is something to send it is a
// request like others, with their deadline and their problems.
func (s *Server) WatchBoard(c *gin.Context) {
	ctx := c.Request.Context()
	looker, err := s.board.Look()
	if err != nil {
		abort(c, err)
		return
	}
	defer looker.Leave()
	event, err := looker.Next(ctx)
	if err != nil {
		abort(c, err)
		return
	}
	edge.StreamsOut(c.Request)
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	out := stream{c.Writer, http.NewResponseController(c.Writer)}
	err = out.write("retry: %d\n\n", reconnect)
	for err == nil {
		if event.Data == nil {
			err = out.write(": nothing new\n\n")
		} else {
			err = out.write("event: %s\nid: %s\ndata: %s\n\n", event.Kind, event.ID, event.Data)
		}
		if err == nil {
			event, err = nextWithin(ctx, looker, quietFor)
		}
	}
	// The client went, read too slowly, or the role stops: there is nobody to tell.
	c.Abort()
}

// nextWithin returns an event without data when there is none in time.
func nextWithin(ctx context.Context, looker *board.Looker, d time.Duration) (board.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	event, err := looker.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return event, err
}

// stream writes to a client that may have stopped reading.
type stream struct {
	gin.ResponseWriter
	control *http.ResponseController
}

func (s stream) write(format string, args ...any) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("bound the writing of an event: %w", err)
	}
	if _, err := fmt.Fprintf(s, format, args...); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	s.Flush()
	return nil
}
