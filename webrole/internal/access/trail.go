package access

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
)

// outcomeWithin bounds the second row, which is written when the answer is out.
const outcomeWithin = 3 * time.Second

// labFault is the lab, which is there on loopback only. It breaks the storage
// that the trail is in, and must be able to mend it.
const labFault = "POST /api/v1/lab/:fault"

// changes reports whether a request is one to write down: it changes something other than
// what any viewer may change, such as views and what is made first.
func changes(route string, do Action) bool {
	read := strings.HasPrefix(route, http.MethodGet) || strings.HasPrefix(route, http.MethodHead)
	return !read && do != See && do != Look && route != labFault
}

// record has a request handled between two rows of the audit log: one of what is asked,
// without which it is not done, and one of what was answered, which may be lost.
func record(c *gin.Context, trail *audit.Log) error {
	ctx := c.Request.Context()
	who := IdentityOf(ctx)
	var subject []string
	for _, p := range c.Params {
		subject = append(subject, p.Key+"="+p.Value[:min(len(p.Value), maxParameter)])
	}
	e := audit.Entry{
		Owner: who.Owner, Role: string(who.Role), Key: who.Key, From: middleware.Client(c).String(),
		Action: c.Request.Method + " " + c.FullPath(), Subject: strings.Join(subject, " "), Request: c.Writer.Header().Get(middleware.RequestIDHeader),
	}
	if err := trail.Write(ctx, e); err != nil {
		return err
	}
	c.Next()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeWithin)
	defer cancel()
	e.Status = c.Writer.Status()
	if e.Status < http.StatusBadRequest {
		e.Made = c.Writer.Header().Get("Location")
	}
	if err := trail.Write(ctx, e); err != nil {
		slog.WarnContext(ctx, "the outcome of a change is not in the audit trail", "request", e.Request, "status", e.Status, "error", err)
	}
	return nil
}

// maxParameter bounds one value of a path, in bytes. Ours are shorter.
const maxParameter = 100
