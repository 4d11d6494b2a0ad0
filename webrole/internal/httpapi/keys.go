package httpapi

import (
	"cmp"
	"errors"
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
	var body api.NewKey
	err := s.readJSON(c, "NewKey", &body)
	if err == nil && !visible.Is(body.Name, "") {
		err = problem.New(http.StatusBadRequest, problem.InvalidBody, "Member /name: it is blank, or has characters that cannot be seen or that change how others are shown.")
	}
	var made apikeys.Key
	var text string
	if err == nil {
		made, text, err = s.keys.Create(c.Request.Context(), apikeys.Key{Name: body.Name, Owner: body.Owner, Role: string(body.Role)})
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Location", Base+"/ops/keys/"+made.ID) // for the audit trail, too
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusCreated, api.MadeKey{Key: publicKey(made), Text: text})
}

// ListKeys implements GET /ops/keys.
func (s *Server) ListKeys(c *gin.Context, params api.ListKeysParams) {
	found, next, err := s.keys.List(c.Request.Context(), cmp.Or(value(params.Limit), defaultLimit), value(params.PageToken))
	if err != nil {
		abort(c, err)
		return
	}
	items := []api.Key{}
	for _, k := range found {
		items = append(items, publicKey(k))
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.KeyList{Items: items, NextPageToken: nextToken(next)})
}

// RevokeKey implements DELETE /ops/keys/{keyId}.
func (s *Server) RevokeKey(c *gin.Context, keyID string) {
	err := s.keys.Revoke(c.Request.Context(), keyID)
	if errors.Is(err, apikeys.ErrNotFound) {
		err = problem.New(http.StatusNotFound, problem.NotFound, "There is no such key.").Because(err)
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
}

// ListAudit implements GET /ops/audit.
func (s *Server) ListAudit(c *gin.Context, params api.ListAuditParams) {
	found, next, err := s.trail.List(c.Request.Context(), cmp.Or(value(params.Limit), defaultLimit), value(params.PageToken))
	if err != nil {
		abort(c, err)
		return
	}
	items := []api.AuditEntry{}
	for _, e := range found {
		item := api.AuditEntry{
			At: e.At, Owner: e.Owner, Role: e.Role, Key: some(e.Key), From: e.From, Action: e.Action, Subject: e.Subject, RequestId: e.Request, Made: some(e.Made),
		}
		if e.Status != 0 {
			item.Status = &e.Status
		}
		items = append(items, item)
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.AuditList{Items: items, NextPageToken: nextToken(next)})
}

func publicKey(k apikeys.Key) api.Key {
	return api.Key{
		Id: k.ID, Name: k.Name, Owner: k.Owner, Role: k.Role, CreatedAt: k.CreatedAt, RevokedAt: moment(k.RevokedAt),
	}
}
