package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// CountView implements POST /videos/{id}/views.
func (s *Server) CountView(c *gin.Context, id api.ID) { c.Status(http.StatusNotImplemented) }

// GetViews implements GET /videos/{id}/views.
func (s *Server) GetViews(c *gin.Context, id api.ID) { c.Status(http.StatusNotImplemented) }
