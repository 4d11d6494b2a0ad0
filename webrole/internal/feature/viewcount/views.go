// Package viewcount counts how often videos are watched.
package viewcount

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct{ views *views.Counter }

// New returns the feature.
func New(account *azstore.Account) web.Feature {
	f := feature(&server{views.New(account)})
	f.Tables = []string{views.Table}
	f.Problems = []problem.Answer{problem.When(views.ErrContended, problem.StorageBusy, "Too many count this video's views now. Try again soon.")}
	f.Links = func(v video.Video, l *api.Links) {
		if v.Playable {
			l.Views = new(web.PathOf(v.ID) + "/views")
		}
	}
	return f
}

// CountView implements POST /videos/{id}/views.
func (s *server) CountView(c *gin.Context, id api.ID) {
	web.Reply(c, http.StatusNoContent, nil, s.views.Count(c.Request.Context(), id, time.Now()))
}

// GetViews implements GET /videos/{id}/views.
func (s *server) GetViews(c *gin.Context, id api.ID) {
	found, err := s.views.Views(c.Request.Context(), id)
	web.Reply(c, http.StatusOK, found, err)
}
