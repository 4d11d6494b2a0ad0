package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// ListRegistrations implements GET /events/{event}/registrations.
func (s *Server) ListRegistrations(c *gin.Context, event api.Event, params api.ListRegistrationsParams) {
	c.Status(http.StatusNotImplemented)
}

// ImportRegistrations implements POST /events/{event}/registrations.
func (s *Server) ImportRegistrations(c *gin.Context, event api.Event) {
	c.Status(http.StatusNotImplemented)
}

// GetRegistration implements GET /events/{event}/registrations/{bib}.
func (s *Server) GetRegistration(c *gin.Context, event api.Event, bib api.BibInPath) {
	c.Status(http.StatusNotImplemented)
}

// EditRegistration implements PATCH /events/{event}/registrations/{bib}.
func (s *Server) EditRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.EditRegistrationParams) {
	c.Status(http.StatusNotImplemented)
}

// DeleteRegistration implements DELETE /events/{event}/registrations/{bib}.
func (s *Server) DeleteRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.DeleteRegistrationParams) {
	c.Status(http.StatusNotImplemented)
}
