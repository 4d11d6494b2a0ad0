package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/visible"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// workerMemory is how long a silent worker stays listed.
const workerMemory = 10 * time.Minute

// operate leaves a request to the library's handler, behind the checks of this API.
func (s *Server) operate(c *gin.Context) { s.operator.ServeHTTP(c.Writer, c.Request) }

// ListQueues implements GET /ops/queues.
func (s *Server) ListQueues(c *gin.Context) { s.operate(c) }

// ClearQueue implements POST /ops/queues/{queue}/clear. Work that a row promises comes back
// with the reconciler.
func (s *Server) ClearQueue(c *gin.Context, _ api.QueueName) { s.operate(c) }

// PauseQueue implements POST /ops/queues/{queue}/pause.
func (s *Server) PauseQueue(c *gin.Context, _ api.QueueName) { s.operate(c) }

// ResumeQueue implements POST /ops/queues/{queue}/resume.
func (s *Server) ResumeQueue(c *gin.Context, _ api.QueueName) { s.operate(c) }

// PeekQueue implements GET /ops/queues/{queue}/messages.
func (s *Server) PeekQueue(c *gin.Context, _ api.QueueName, _ api.PeekQueueParams) { s.operate(c) }

// ListPoison implements GET /ops/poison.
func (s *Server) ListPoison(c *gin.Context, _ api.ListPoisonParams) { s.operate(c) }

// RedrivePoison implements POST /ops/poison/{poisonId}/redrive. A step whose
// failure failed its video would find itself unwanted, so the video is taken up
// again instead, which sends the step along with whatever else is missing.
func (s *Server) RedrivePoison(c *gin.Context, poisonID string) {
	reply(c, http.StatusAccepted, nil, s.redrive(c.Request.Context(), poisonID))
}

func (s *Server) redrive(ctx context.Context, poisonID string) error {
	p, err := s.Queues.GetPoison(ctx, poisonID)
	if err != nil {
		return err
	}
	step, _ := workflow.Declaration.Find(p.Kind)
	if id, err := engine.ParseID(p.Subject); err == nil && step.HasRows() && !step.IsOptional() {
		rec, err := s.Videos.Get(ctx, id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		if err == nil && rec.Subject.State == engine.Failed {
			if _, err := s.Videos.Retry(ctx, id); err != nil {
				return err
			}
			return s.Queues.DiscardPoison(ctx, poisonID)
		}
	}
	_, err = s.Queues.Redrive(ctx, poisonID)
	return err
}

// ListUnreadable implements GET /ops/unreadable.
func (s *Server) ListUnreadable(c *gin.Context, params api.ListUnreadableParams) {
	rows, next, err := s.Unreadable.List(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.UnreadableList{Items: list(rows), NextPageToken: api.Some(next)}, err)
}

// DeleteUnreadable implements DELETE /ops/unreadable/{rowId}.
func (s *Server) DeleteUnreadable(c *gin.Context, rowID string) {
	ctx := c.Request.Context()
	row, err := s.Unreadable.Get(ctx, rowID)
	if id, isVideo := workflow.Declaration.SubjectOfMeta(row); err == nil && isVideo {
		_, err = s.Videos.Delete(ctx, id, "")
	} else if err == nil {
		err = s.Unreadable.Delete(ctx, row)
	}
	reply(c, http.StatusNoContent, nil, err)
}

// ListWorkers implements GET /ops/workers.
func (s *Server) ListWorkers(c *gin.Context) {
	found, err := s.Workers.List(c.Request.Context(), time.Now().Add(-workerMemory))
	reply(c, http.StatusOK, api.WorkerList{Items: api.Each(found, func(w workers.Worker) api.Worker {
		return api.Worker{Name: w.Name, LastSeenAt: w.SeenAt, Details: &w}
	})}, err)
}

// GetScale implements GET /ops/scale (paper rows Q4 and Q18).
func (s *Server) GetScale(c *gin.Context) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.Scale, _ error) {
		state, err := s.Board.State(ctx)
		if err != nil {
			return out, fmt.Errorf("count the workers wanted: %w", err)
		}
		return state.Decision.Scale, nil
	})
}

// CreateKey implements POST /ops/keys. The text of the key is a secret: it is in the
// answer, and nowhere else.
func (s *Server) CreateKey(c *gin.Context) {
	handle(c, http.StatusCreated, func(ctx context.Context) (out api.MadeKey, _ error) {
		body, err := readJSON[api.NewKey](s, c)
		if err != nil {
			return out, err
		}
		if !visible.Is(body.Name, "") {
			return out, invisible("name")
		}
		made, text, err := s.Keys.Create(ctx, apikeys.Key{Name: body.Name, Owner: body.Owner, Role: string(body.Role)})
		if err != nil {
			return out, err
		}
		c.Header("Location", Base+"/ops/keys/"+made.ID) // for the audit trail, too
		return api.MadeKey{Key: made, Text: text}, nil
	})
}

func invisible(member string) error {
	return problem.New(problem.InvalidBody, "Member /%s: it is blank, or has characters that cannot be seen or that change how others are shown.", member)
}

// ListKeys implements GET /ops/keys.
func (s *Server) ListKeys(c *gin.Context, params api.ListKeysParams) {
	found, next, err := s.Keys.List(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.KeyList{Items: list(found), NextPageToken: api.Some(next)}, err)
}

// RevokeKey implements DELETE /ops/keys/{keyId}.
func (s *Server) RevokeKey(c *gin.Context, keyID string) {
	reply(c, http.StatusNoContent, nil, s.Keys.Revoke(c.Request.Context(), keyID))
}

// ListAudit implements GET /ops/audit.
func (s *Server) ListAudit(c *gin.Context, params api.ListAuditParams) {
	found, next, err := s.Trail.List(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.AuditList{Items: list(found), NextPageToken: api.Some(next)}, err)
}

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
