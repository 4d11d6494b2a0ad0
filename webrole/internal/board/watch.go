package board

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// server answers for a board.
type server struct{ *Board }

// Feature returns the board's part of the API.
func (b *Board) Feature() web.Feature {
	f := feature(&server{b})
	f.Problems = []problem.Answer{
		problem.When(ErrCrowded, problem.TooBusy, "Too many watch the board."),
		problem.When(ErrClosed, problem.StorageBusy, "This web role stops. Ask again: another one answers."),
	}
	return f
}

// GetScale implements GET /ops/scale (paper rows Q4 and Q18).
func (s *server) GetScale(c *gin.Context) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.Scale, _ error) {
		state, err := s.State(ctx)
		if err != nil {
			return out, fmt.Errorf("count the workers wanted: %w", err)
		}
		return state.Decision.Scale, nil
	})
}

const (
	// writeTimeout is how long a client may not read before it is cut off.
	writeTimeout = 10 * time.Second
	// reconnect is what browsers wait before they ask again, in milliseconds.
	reconnect = 2000
)

// WatchBoard implements GET /ops/events. Until there is something to send it is a
// request like others, with their deadline and their problems.
func (s *server) WatchBoard(c *gin.Context) {
	for state, err := range s.Watch(c.Request.Context()) {
		if !c.Writer.Written() {
			if err != nil {
				problem.Abort(c, err)
				return
			}
			middleware.StreamsOut(c)
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
