package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/visible"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

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

// invisible refuses a text of a body.
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
	replyEmpty(c, http.StatusNoContent, s.Keys.Revoke(c.Request.Context(), keyID))
}

// ListAudit implements GET /ops/audit.
func (s *Server) ListAudit(c *gin.Context, params api.ListAuditParams) {
	found, next, err := s.Trail.List(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.AuditList{Items: list(found), NextPageToken: api.Some(next)}, err)
}
