package board

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// server answers for a board.
type server struct{ *Board }

// Read reads the settings of scaling.
func Read(env *settings.Reader) web.Optional {
	scale := scaling.Read(env)
	return web.Optional{Settings: slog.Any("scaling", scale), New: func(p web.Parts) web.Feature {
		return New(p, &scaling.Window{Settings: scale, Slots: workflow.Pools()}).feature(p.Ops)
	}}
}

// feature is the board's part of the API, with ops its page for browsers without script, and
// what is measured. Without ops the board says where it is.
func (b *Board) feature(ops bool) web.Feature {
	f := feature(&server{b})
	f.Close, f.Metrics = b.Close, b.register
	f.Pages = func(_ gin.IRouter, show web.Show) {
		show("/board", "board", web.Nothing)
		if ops {
			show("/board/tables", "tables", func(c *gin.Context) (any, error) {
				seen, err := b.State(c.Request.Context())
				if err != nil {
					return nil, err
				}
				return seen.Event, nil
			})
		}
	}
	return f
}

// GetScale implements GET /ops/scale (paper rows Q4 and Q18).
func (s *server) GetScale(c *gin.Context) {
	web.Handle(c, http.StatusOK, s.Scale)
}

// writeTimeout is how long a client may not read before it is cut off.
const writeTimeout = 10 * time.Second

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
		}
		if err == nil {
			err = send(c.Writer, state)
		}
		if err != nil { // the client left or read too slowly, or the role stops: an error would not be read
			break
		}
	}
	c.Abort()
}

// send writes an event to a client that may have stopped reading.
func send(w gin.ResponseWriter, state *State) error {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = fmt.Fprintf(w, "event: snapshot\ndata: %s\n\n", state.JSON)
		w.Flush()
	}
	return err
}
