package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// GetScale implements GET /ops/scale (paper rows Q4 and Q18).
func (s *Server) GetScale(c *gin.Context) {
	d, err := s.scale.Now(c.Request.Context())
	if err != nil {
		abort(c, err)
		return
	}
	targets := s.scale.Settings()
	answer := api.Scale{
		At: d.Seen.At.UTC(), Wanted: d.Wanted, Now: d.Now, Workers: d.Seen.Workers, Why: d.Why,
		Floor: targets.Floor, Ceiling: targets.Ceiling, BeginSeconds: targets.Begin.Seconds(),
		BulkSeconds: targets.Bulk.Seconds(), CoolDownSeconds: targets.CoolDown.Seconds(), Queues: []api.ScaleQueue{},
	}
	for _, q := range d.Seen.Queues {
		answer.Queues = append(answer.Queues, api.ScaleQueue{
			Name: q.Name, Pool: q.Pool, Urgent: q.Urgent, Paused: q.Paused, Visible: q.Visible, Hidden: q.Hidden,
			OldestSeconds: q.Oldest.Seconds(), SecondsEach: q.Each.Seconds(), WorkSeconds: q.Work().Seconds(),
		})
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, answer)
}
