package access

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/audit"
)

// Auditor writes the audit log: the caller and the origin of each change. The zero
// value writes nothing.
type Auditor struct {
	Entries interface {
		Write(ctx context.Context, e audit.Entry) error
	}
	From func(*http.Request) string // the network of a client
}

// outcomeWithin bounds the second row, which is written when the answer is out.
const outcomeWithin = 3 * time.Second

// labFault is the lab, which is there on loopback only. It breaks the storage
// that the trail is in, and must be able to mend it.
const labFault = "POST /api/v1/lab/:fault"

// notes reports whether a request is one to write down: it changes something other than
// what any viewer may change, such as views and what is made first.
func notes(route, method string, do Action) bool {
	if route == labFault {
		return false
	}
	switch do {
	case Look, See, Play:
		return false
	}
	return method != http.MethodGet && method != http.MethodHead
}

// begin writes down what is about to be done. When that fails it must not be done.
func (t Auditor) begin(c *gin.Context) (e audit.Entry, _ error) {
	who := IdentityOf(c.Request.Context())
	e = audit.Entry{
		Owner: who.Owner, Role: string(who.Role), Key: who.Key, From: t.From(c.Request),
		Action: c.Request.Method + " " + c.FullPath(), Request: c.Writer.Header().Get("X-Request-Id"),
	}
	for _, p := range c.Params {
		if e.Subject != "" {
			e.Subject += " "
		}
		e.Subject += p.Key + "=" + clip(p.Value)
	}
	return e, t.Entries.Write(c.Request.Context(), e)
}

// maxParameter bounds one value of a path, in bytes. Ours are shorter.
const maxParameter = 100

func clip(text string) string { return text[:min(len(text), maxParameter)] }

// end writes down what was answered. It may be lost: the row before says what was asked.
func (t Auditor) end(c *gin.Context, e audit.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), outcomeWithin)
	defer cancel()
	e.Status = c.Writer.Status()
	if e.Status < http.StatusBadRequest {
		e.Made = c.Writer.Header().Get("Location")
	}
	if err := t.Entries.Write(ctx, e); err != nil {
		slog.WarnContext(ctx, "the outcome of a change is not in the audit trail", "request", e.Request, "status", e.Status, "error", err)
	}
}
