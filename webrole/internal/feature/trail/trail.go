// Package trail shows the audit trail, which package access writes.
package trail

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct{ trail *audit.Log }

// New returns the feature.
func New(account *azstore.Account) web.Feature {
	return feature(&server{audit.New(account)})
}

// ListAudit implements GET /ops/audit.
func (s *server) ListAudit(c *gin.Context, params api.ListAuditParams) {
	found, next, err := s.trail.List(c.Request.Context(), params.Limit, params.PageToken)
	web.Reply(c, http.StatusOK, api.AuditList{Items: web.List(found), NextPageToken: api.Some(next)}, err)
}
