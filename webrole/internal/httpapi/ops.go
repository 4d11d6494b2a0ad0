package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/web"
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

// RedrivePoison implements POST /ops/poison/{poisonId}/redrive.
func (s *Server) RedrivePoison(c *gin.Context, poisonID string) {
	web.Reply(c, http.StatusAccepted, nil, upkeep.Redrive(c.Request.Context(), s.Videos.Store, s.Queues, poisonID))
}

// ListUnreadable implements GET /ops/unreadable.
func (s *Server) ListUnreadable(c *gin.Context, params api.ListUnreadableParams) {
	rows, next, err := s.Unreadable.List(c.Request.Context(), params.Limit, params.PageToken)
	web.Reply(c, http.StatusOK, api.UnreadableList{Items: web.List(rows), NextPageToken: api.Some(next)}, err)
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
	web.Reply(c, http.StatusNoContent, nil, err)
}

// ListWorkers implements GET /ops/workers.
func (s *Server) ListWorkers(c *gin.Context) {
	found, err := s.Workers.List(c.Request.Context(), time.Now().Add(-workerMemory))
	web.Reply(c, http.StatusOK, api.WorkerList{Items: api.Each(found, func(w workers.Worker) api.Worker {
		return api.Worker{Name: w.Name, LastSeenAt: w.SeenAt, Details: &w}
	})}, err)
}
