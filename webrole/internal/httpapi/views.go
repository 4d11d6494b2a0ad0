package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/oapi-codegen/runtime/types"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// CountView implements POST /videos/{id}/views.
func (s *Server) CountView(c *gin.Context, id api.ID) {
	if err := s.mustExist(c, id); err != nil {
		abort(c, err)
		return
	}
	if err := s.views.Count(c.Request.Context(), video.ID(id), time.Now()); err != nil {
		abort(c, err)
		return
	}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
}

// GetViews implements GET /videos/{id}/views.
func (s *Server) GetViews(c *gin.Context, id api.ID) {
	if err := s.mustExist(c, id); err != nil {
		abort(c, err)
		return
	}
	found, err := s.views.Of(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	out := api.Views{Total: found.Total, Days: []api.DayOfViews{}}
	for _, d := range found.Days {
		out.Days = append(out.Days, api.DayOfViews{Date: types.Date{Time: d.Date}, Views: d.Views})
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, out)
}

func (s *Server) mustExist(c *gin.Context, id api.ID) error {
	_, err := s.existing(c.Request.Context(), video.ID(id))
	return err
}
