package main

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/web"
)

// queue is what operators are told of a queue, on the listener where they always are.
func (s *server) queue(name string) api.Queue {
	s.t.Helper()
	listed := s.send(s.request(http.MethodGet, s.admin+"/api/v1/ops/queues", nil))
	for _, q := range decode[api.QueueList](s.t, listed, http.StatusOK).Items {
		if q.Name == name {
			return q
		}
	}
	s.t.Fatalf("queue %s is not listed", name)
	return api.Queue{}
}

// TestQueuesAreOperated: length, peek, pause, resume and clear (Q4, Q10).
func TestQueuesAreOperated(t *testing.T) {
	t.Parallel()
	s := startOps(t, nil)
	v := s.create(map[string]any{})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	if q := s.queue("probe"); q.Length != 1 || q.Paused || q.VisibilitySeconds != 60 || q.Pool == "" {
		t.Errorf("probe: %+v", q)
	}
	seen := decode[api.MessageList](t, s.call(http.MethodGet, "/ops/queues/probe/messages", nil), http.StatusOK)
	if len(seen.Items) != 1 || seen.Items[0].Type != "cutroom.work.probe.v1" || seen.Items[0].Subject != v.Id || seen.Items[0].DequeueCount != 0 {
		t.Errorf("peeked %+v", seen.Items)
	}
	for range 2 {
		s.call(http.MethodPost, "/ops/queues/probe/pause", nil).want(t, http.StatusNoContent, "")
	}
	if !s.queue("probe").Paused {
		t.Error("the queue is not paused")
	}
	s.call(http.MethodPost, "/ops/queues/probe/resume", nil).want(t, http.StatusNoContent, "")
	s.call(http.MethodPost, "/ops/queues/probe/clear", nil).want(t, http.StatusNoContent, "")
	if q := s.queue("probe"); q.Length != 0 || q.Paused {
		t.Errorf("after resume and clear: %+v", q)
	}
}

// TestPoisonIsRedriven: a step that failed its video takes the video up again.
func TestPoisonIsRedriven(t *testing.T) {
	t.Parallel()
	s := startOps(t, nil)
	v := s.create(map[string]any{})
	s.call(http.MethodPut, "/videos/"+v.Id+"/content", movie(100)).want(t, http.StatusAccepted, "")
	ctx := t.Context()
	leases, err := s.queues.Queue(workflow.Probe).Receive(ctx, 1)
	if err != nil || len(leases) != 1 {
		t.Fatalf("receive: %d, %v", len(leases), err)
	}
	key := engine.Key{ID: engine.ID(v.Id), Generation: 1, Step: workflow.StepProbe}
	if err := s.videos.FailStep(ctx, key, &engine.Failure{Code: engine.ProcessingFailed, Detail: "tried too often"}); err != nil {
		t.Fatal(err)
	}
	if err := leases[0].Poison(ctx, "tried too often", nil); err != nil {
		t.Fatal(err)
	}
	if got := decode[api.Video](t, s.call(http.MethodGet, "/videos/"+v.Id, nil), http.StatusOK); got.State != engine.Failed || got.Error == nil || got.Error.Code != "processing_failed" {
		t.Errorf("after the failure: %+v", got)
	}
	found := decode[api.PoisonList](t, s.call(http.MethodGet, "/ops/poison", nil), http.StatusOK).Items
	if len(found) != 1 || found[0].Queue != "probe" || found[0].Reason != "tried too often" || s.queue("probe-poison").Length != 1 {
		t.Fatalf("poison: %+v", found)
	}
	s.call(http.MethodPost, "/ops/poison/"+found[0].ID+"/redrive", nil).want(t, http.StatusAccepted, "")
	if got := decode[api.Video](t, s.call(http.MethodGet, "/videos/"+v.Id, nil), http.StatusOK); got.State != engine.Uploaded {
		t.Errorf("after redrive: %s", got.State)
	}
	if left := decode[api.PoisonList](t, s.call(http.MethodGet, "/ops/poison", nil), http.StatusOK).Items; len(left) != 0 || s.messages("probe") != 1 {
		t.Errorf("after redrive: poison %+v, %d messages", left, s.messages("probe"))
	}
	s.call(http.MethodPost, "/ops/poison/"+found[0].ID+"/redrive", nil).want(t, 404, "poison_not_found")
}

// TestWorkersAreListed: heartbeats, but not those of long ago.
func TestWorkersAreListed(t *testing.T) {
	t.Parallel()
	s := startOps(t, nil)
	register := workers.New(s.account)
	for name, seen := range map[string]time.Time{"alive": time.Now().UTC(), "long-gone": time.Now().UTC().Add(-time.Hour)} {
		if err := register.Beat(t.Context(), workers.Worker{Name: name, SeenAt: seen, Done: 7}); err != nil {
			t.Fatal(err)
		}
	}
	got := decode[api.WorkerList](t, s.call(http.MethodGet, "/ops/workers", nil), http.StatusOK).Items
	if len(got) != 1 || got[0].Name != "alive" || got[0].Details.Done != 7 {
		t.Errorf("workers %+v", got)
	}
}

// TestListeners: what is where, and what browsers are told.
func TestListeners(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"CUTROOM_INSTANCE": "child-7"})
	admin := func(path string) answer { return s.send(s.request(http.MethodGet, s.admin+path, nil)) }
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/api/v1/ops/queues", "/livez", "/readyz"} {
		if got := admin(path); got.StatusCode != http.StatusOK || got.Header.Get("X-Cutroom-Instance") != "child-7" {
			t.Errorf("admin %s: %d", path, got.StatusCode)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		s.get(path).want(t, 404, "not_found")
	}
	if got := admin("/api/v1/videos"); got.StatusCode != http.StatusNotFound {
		t.Errorf("videos on the admin listener: %d", got.StatusCode)
	}
	id := s.create(map[string]any{}).Id
	pages := []string{"/watch/" + id}
	for route, class := range wantedRoutes() {
		if path, is := strings.CutPrefix(route, "GET "); is && class == "viewers" && !strings.Contains(path, "/api/") && !strings.ContainsAny(path, ":*") {
			pages = append(pages, path)
		}
	}
	for _, path := range pages {
		page := s.get(path)
		text := string(page.body)
		if page.StatusCode != http.StatusOK || !strings.Contains(text, "<main") || strings.Contains(text, "<style") || strings.Contains(text, " onclick") {
			t.Errorf("%s: %d %s", path, page.StatusCode, text)
		}
		csp := page.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "frame-ancestors 'none'") || page.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s can be framed: %v", path, page.Header)
		}
		if !strings.Contains(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "connect-src 'self' http://127.0.0.1:") {
			t.Errorf("%s: CSP %q", path, csp)
		}
		if page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, page.Header)
		}
	}
	s.get("/watch/nonsense").want(t, 400, "invalid_id")
	framed := s.get("/embed/" + id).Header
	if csp := framed.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors *") || framed.Get("X-Frame-Options") != "" || !strings.Contains(csp, "default-src 'self'") {
		t.Errorf("/embed: %v", framed)
	}
	files, err := fs.Glob(web.Files, "static/*.*")
	if err != nil || len(files) < 5 {
		t.Fatalf("files %q: %v", files, err)
	}
	for _, name := range append(files, "static/vendor/hls.min.js", "static/vendor/hls.LICENSE.txt") {
		file := strings.TrimPrefix(name, "static/")
		got := s.get("/static/" + file)
		if got.StatusCode != http.StatusOK || len(got.body) == 0 {
			t.Errorf("%s: %d", file, got.StatusCode)
		}
		if again := s.get("/static/"+file, "If-None-Match", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", file, again.StatusCode)
		}
	}
	s.get("/static/../main.go").want(t, 404, "not_found")
	s.get("/static/..%2f..%2fmain.go").want(t, 404, "not_found")
}

// TestTokenOutsideLoopback: on other addresses everything but health needs the
// token, and operations are on the admin listener only.
func TestTokenOutsideLoopback(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-enough-letters"
	s := start(t, map[string]string{"WEBROLE_ADDR": "0.0.0.0:0", "WEBROLE_TOKEN": token, "WEBROLE_HOSTS": "127.0.0.1"})
	for _, headers := range [][]string{nil, {
		"Authorization", "Bearer nonsense",
	}, {
		"Authorization", "Bearer eyJhbGciOiJub25lIn0.e30.",
	}, {
		"Authorization", "Basic Og==",
	}} {
		got := s.call(http.MethodGet, "/videos", nil, headers...)
		got.want(t, 401, "unauthorized")
		if got.Header.Get("WWW-Authenticate") == "" {
			t.Error("401 without WWW-Authenticate")
		}
	}
	s.call(http.MethodGet, "/videos", nil, "Authorization", "Bearer "+token).want(t, http.StatusOK, "")
	withPassword := s.request(http.MethodGet, s.public+"/", nil)
	withPassword.SetBasicAuth("anybody", token)
	if got := s.send(withPassword); got.StatusCode != http.StatusOK {
		t.Errorf("page with the token as password: %d", got.StatusCode)
	}
	if got := s.get("/livez"); got.StatusCode != http.StatusOK {
		t.Errorf("health needs a token: %d", got.StatusCode)
	}
	s.call(http.MethodGet, "/ops/queues", nil, "Authorization", "Bearer "+token).want(t, 404, "not_found")
	s.call(http.MethodGet, "/videos", nil, "Authorization", "Bearer "+token, "Host", "evil.example").want(t, 421, "host_not_allowed")
}

// TestConfig: one error lists every bad variable, and nothing listens openly
// without authentication.
func TestConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"WEBROLE_ADDR": "0.0.0.0:8080", "WEBROLE_ADMIN_ADDR": "nonsense", "CUTROOM_PREFIX": "NO", "CUTROOM_VISIBILITY": "nope=1s",
		"WEBROLE_RATE_LIMIT": "-1", "WEBROLE_PLAYBACK_RATE_LIMIT": "many", "WEBROLE_TRUSTED_PROXIES": "proxy.example.org", "WEBROLE_PUBLIC_OPS": "maybe", "WEBROLE_OPS_NETWORKS": "office",
		"WEBROLE_DRAIN_TIMEOUT": "soon", "CUTROOM_LOG_LEVEL": "loud", "WEBROLE_ORIGINS": "example.org",
	}
	_, err := loadConfig(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("a bad configuration is accepted")
	}
	for name := range env {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080", "example.org:80"} {
		if _, err := loadConfig(lookup("WEBROLE_ADDR", addr)); err == nil {
			t.Errorf("%s without a token is accepted", addr)
		}
		if _, err := loadConfig(lookup("WEBROLE_ADMIN_ADDR", addr)); err == nil {
			t.Errorf("admin on %s without a token is accepted", addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:8080", "localhost:0", "[::1]:8080"} {
		if _, err := loadConfig(lookup("WEBROLE_ADDR", addr)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if _, err := loadConfig(lookup("WEBROLE_TOKEN", "short")); err == nil {
		t.Error("a short token is accepted")
	}
	if err := run(t.Context(), lookup("WEBROLE_ADDR", "0.0.0.0:8080")); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("run: %v", err)
	}
}

func lookup(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}
