package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// CreateClip implements POST /videos/{id}/clips.
func (s *Server) CreateClip(c *gin.Context, id api.ID) { c.Status(http.StatusNotImplemented) }

// ListClips implements GET /videos/{id}/clips.
func (s *Server) ListClips(c *gin.Context, id api.ID, params api.ListClipsParams) {
	c.Status(http.StatusNotImplemented)
}

// GetClip implements GET /videos/{id}/clips/{clip}.
func (s *Server) GetClip(c *gin.Context, id api.ID, clip api.ClipID) {
	c.Status(http.StatusNotImplemented)
}

// CreateFinishClip implements POST /events/{event}/registrations/{bib}/clips.
func (s *Server) CreateFinishClip(c *gin.Context, event api.Event, bib api.BibInPath) {
	c.Status(http.StatusNotImplemented)
}
