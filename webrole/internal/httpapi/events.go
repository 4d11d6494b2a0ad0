package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

const (
	// writeTimeout is how long a client may not read before it is cut off.
	writeTimeout = 10 * time.Second
	// reconnect is what browsers wait before they ask again, in milliseconds.
	reconnect = 2000
)

// WatchBoard implements GET /ops/events. Until there is something to send it is a
// request like others, with their deadline and their problems.
func (s *Server) WatchBoard(c *gin.Context) {
	for state, err := range s.Board.Watch(c.Request.Context()) {
		if !c.Writer.Written() {
			if err != nil {
				problem.Abort(c, err)
				return
			}
			middleware.StreamsOut(c.Request)
			c.Header("Content-Type", "text/event-stream")
			c.Header("X-Accel-Buffering", "no") // nginx would keep events back
			err = send(c.Writer, "retry: %d\n\n", reconnect)
		}
		if err == nil {
			err = send(c.Writer, "event: snapshot\ndata: %s\n\n", state.JSON)
		}
		if err != nil { // the client left or read too slowly, or the role stops: an error would not be read
			break
		}
	}
	c.Abort()
}

// send writes to a client that may have stopped reading.
func send(w gin.ResponseWriter, format string, args ...any) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("bound the writing of an event: %w", err)
	}
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	w.Flush()
	return nil
}
