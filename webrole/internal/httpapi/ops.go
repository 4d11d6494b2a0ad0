package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// workerMemory is how long a silent worker stays listed.
const workerMemory = 10 * time.Minute

// Operations are the routes of package azqops, behind the checks of this API. What Clear removes
// and a row promises comes back with the reconciler.
func (s *Server) Operations() web.Feature {
	const ops = web.Base + "/ops"
	operate := gin.WrapH(http.StripPrefix(ops, azqops.Routes(s.Queues, problem.Write)))
	return web.Feature{Routes: func(r gin.IRouter, _ web.ErrorHandler) {
		for _, path := range []string{"/queues", "/queues/:queue/messages", "/poison"} {
			r.GET(ops+path, operate)
		}
		for _, path := range []string{"/clear", "/pause", "/resume"} {
			r.POST(ops+"/queues/:queue"+path, operate)
		}
	}}
}

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
	if err == nil && row.Table == workflow.VideosTable && row.RowKey == engine.MetaKey {
		_, err = s.Videos.Delete(ctx, engine.ID(row.PartitionKey), "")
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
