package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// trail reads the audit trail, oldest first.
func (c *community) trail() (all []api.AuditEntry) {
	c.t.Helper()
	for token := ""; ; {
		page := decode[api.AuditList](c.t, c.as(operator, "GET", "/api/v1/ops/audit?limit=7&pageToken="+token, nil), http.StatusOK)
		for _, e := range page.Items {
			all = append([]api.AuditEntry{e}, all...)
		}
		if page.NextPageToken == nil {
			return all
		}
		token = *page.NextPageToken
	}
}

// TestAudit: who asked for which change, from where, and what came of it; nothing of
// who only looks or is refused, and neither content nor secrets.
func TestAudit(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, map[string]string{"WEBROLE_TRUSTED_PROXIES": "127.0.0.1"})
	begun := len(c.trail())
	if begun != 8 { // four keys
		t.Errorf("%d entries about four keys, want 8", begun)
	}
	behind := []string{"X-Forwarded-For", "203.0.113.9, 198.51.100.7"}
	id := decode[api.Video](t, c.as(owner, "POST", "/api/v1/videos", `{"title":"Top secret","visibility":"private"}`, behind...), http.StatusCreated).Id
	path := "/api/v1/videos/" + id
	c.as(owner, "PUT", path+"/content", movie(100), behind...).want(t, 202, "")
	c.as(owner, "POST", path+"/cancel", nil, behind...).want(t, 202, "")
	c.as(owner, "POST", path+"/cancel?no-such-parameter=1", nil, behind...).want(t, 400, "")
	c.as(operator, "POST", "/api/v1/ops/queues/index/pause", nil, behind...).want(t, 204, "")
	c.as(operator, "POST", "/api/v1/ops/queues/index/clear", nil, behind...).want(t, 204, "")
	c.as(operator, "POST", "/api/v1/ops/poison/none/redrive", nil, behind...).want(t, 404, "")
	made := decode[api.MadeKey](t, c.as(operator, "POST", "/api/v1/ops/keys", `{"name":"x","owner":"y","role":"viewer"}`, behind...), http.StatusCreated)
	c.as(operator, "DELETE", "/api/v1/ops/keys/"+made.Key.ID, nil, behind...).want(t, 204, "")
	c.as(owner, "DELETE", path, nil, append(behind, "X-Request-Id", "the-last-one")...).want(t, 202, "")
	// None of these is written down.
	c.as(owner, "GET", "/api/v1/videos?owner=me", nil).want(t, 200, "")
	c.as(stranger, "DELETE", path, nil).want(t, 404, "")
	c.as(visitor, "POST", "/api/v1/videos", `{"title":"a"}`).want(t, 401, "")
	c.as("a guess", "POST", "/api/v1/ops/queues/index/clear", nil).want(t, 401, "")

	want := []struct {
		owner, role, action, subject string
		status                       int
	}{
		{"studio-3", "uploader", "POST /api/v1/videos", "", 201},
		{"studio-3", "uploader", "PUT /api/v1/videos/:id/content", "id=" + id, 202},
		{"studio-3", "uploader", "POST /api/v1/videos/:id/cancel", "id=" + id, 202},
		{"studio-3", "uploader", "POST /api/v1/videos/:id/cancel", "id=" + id, 400},
		{"local", "operator", "POST /api/v1/ops/queues/:queue/pause", "queue=index", 204},
		{"local", "operator", "POST /api/v1/ops/queues/:queue/clear", "queue=index", 204},
		{"local", "operator", "POST /api/v1/ops/poison/:poisonId/redrive", "poisonId=none", 404},
		{"local", "operator", "POST /api/v1/ops/keys", "", 201},
		{"local", "operator", "DELETE /api/v1/ops/keys/:keyId", "keyId=" + made.Key.ID, 204},
		{"studio-3", "uploader", "DELETE /api/v1/videos/:id", "id=" + id, 202},
	}
	byRequest := map[string][]api.AuditEntry{}
	var order []string
	for _, e := range c.trail()[begun:] {
		if byRequest[e.Request] == nil {
			order = append(order, e.Request)
		}
		byRequest[e.Request] = append(byRequest[e.Request], e)
	}
	if len(order) != len(want) {
		t.Fatalf("%d changes are written down, want %d: %+v", len(order), len(want), order)
	}
	for i, w := range want {
		both := byRequest[order[i]]
		if len(both) != 2 || both[0].Status != 0 && both[1].Status != 0 {
			t.Errorf("%s: %+v, want one entry before and one after", w.action, both)
			continue
		}
		for _, e := range both {
			if e.Owner != w.owner || e.Role != w.role || e.Action != w.action || e.Subject != w.subject || e.From != "198.51.100.7/32" || (e.Key != "") != (w.owner != "local") {
				t.Errorf("%+v, want %+v", e, w)
			}
			if e.Status != 0 && e.Status != w.status {
				t.Errorf("%s: status %d, want %d", w.action, e.Status, w.status)
			}
			if e.Status != 0 && w.status == 201 && !strings.HasSuffix(e.Made, id) && !strings.HasSuffix(e.Made, made.Key.ID) {
				t.Errorf("%s: made %v", w.action, e.Made)
			}
		}
	}
	if last := order[len(order)-1]; last != "the-last-one" {
		t.Errorf("request %q", last)
	}
	raw := c.as(operator, "GET", "/api/v1/ops/audit?limit=100", nil).body
	for _, secret := range []string{"Top secret", made.Text, testToken, c.keys[owner]} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the trail has %q", secret)
		}
	}
	c.as(owner, "GET", "/api/v1/ops/audit", nil).want(t, 403, "forbidden")
	c.as(operator, "GET", "/api/v1/ops/audit?pageToken=nonsense", nil).want(t, 400, "invalid_page_token")
}

// TestNothingWithoutATrace: what cannot be written down is not done.
func TestNothingWithoutATrace(t *testing.T) {
	t.Parallel()
	c := openCommunity(t, nil)
	id := c.announce(owner, video.Public)
	if _, err := c.account.Table(audit.Table).Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if a := c.as(owner, "DELETE", "/api/v1/videos/"+id, nil); a.StatusCode < 500 {
		t.Errorf("deleted without a trace: %d %s", a.StatusCode, a.body)
	}
	c.as(owner, "GET", "/api/v1/videos/"+id, nil).want(t, 200, "")
	rec, err := c.videos.Get(t.Context(), engine.ID(id))
	if err != nil || rec.Subject.State != engine.AwaitingUpload {
		t.Errorf("state %s, %v", rec.Subject.State, err)
	}
}

func init() {
	parts = append(parts, part{
		routes: `operators GET /api/v1/ops/audit
`,
		lists: []list{
			{"listAudit", "/ops/audit?limit=100", []damage{{audit.Table, "{entry}", 1}}},
		},
		library: func(l *library) {
			entry := ""
			for row, err := range l.table(audit.Table).Query(l.t.Context(), tablestore.Query{}) {
				if entry = row.RowKey; err != nil {
					l.t.Fatal(err)
				}
			}
			l.words = append(l.words, "{entry}", entry)
		},
		after: func(l *library) {
			trail, err := l.ask("/ops/audit")
			if err != nil || !strings.Contains(strings.Join(trail, ""), "DELETE /api/v1/ops/unreadable/:rowId") {
				l.t.Errorf("the audit trail does not say who deleted rows: %v", err)
			}
		},
	})
}
