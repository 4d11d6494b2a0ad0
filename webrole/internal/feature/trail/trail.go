// Package trail writes the audit trail and shows it.
package trail

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct{ trail *audit.Log }

// New returns the feature.
func New(account *azstore.Account) web.Feature {
	s := &server{audit.New(account)}
	f := feature(s)
	f.Tables, f.Record = []string{audit.Table}, s.record
	return f
}

// ListAudit implements GET /ops/audit.
func (s *server) ListAudit(c *gin.Context, params api.ListAuditParams) {
	found, next, err := s.trail.List(c.Request.Context(), params.Limit, params.PageToken)
	web.Reply(c, http.StatusOK, api.AuditList{Items: web.List(found), NextPageToken: api.Some(next)}, err)
}

// outcomeWithin bounds the second row, which is written when the answer is out.
const outcomeWithin = 3 * time.Second

// record has a request handled between two rows of the audit log: one of what is asked,
// without which it is not done, and one of what was answered, which may be lost.
func (s *server) record(c *gin.Context) error {
	ctx := c.Request.Context()
	caller := access.IdentityOf(ctx)
	var subject []string
	for _, p := range c.Params {
		subject = append(subject, p.Key+"="+p.Value[:min(len(p.Value), maxParameter)])
	}
	e := audit.Entry{
		Owner: caller.Owner, Role: string(caller.Role), Key: caller.Key, From: middleware.Client(c).String(),
		Action: c.Request.Method + " " + c.FullPath(), Subject: strings.Join(subject, " "), Request: c.Writer.Header().Get(middleware.RequestIDHeader),
	}
	if err := s.trail.Write(ctx, e); err != nil {
		return err
	}
	c.Next()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeWithin)
	defer cancel()
	e.Status = c.Writer.Status()
	if e.Status < http.StatusBadRequest {
		e.Made = c.Writer.Header().Get("Location")
	}
	if err := s.trail.Write(ctx, e); err != nil {
		slog.WarnContext(ctx, "the outcome of a change is not in the audit trail", "request", e.Request, "status", e.Status, "error", err)
	}
	return nil
}

// maxParameter bounds one value of a path, in bytes. Ours are shorter.
const maxParameter = 100
