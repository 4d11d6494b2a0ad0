package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLabIsPassedOn: what the web role adds and keeps back on the way to the bench of
// faults. e2e/lab has the bench itself.
func TestLabIsPassedOn(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-the-lab-itself"
	seen := make(chan *http.Request, 10)
	bench := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"says":"done"}`)
	}))
	t.Cleanup(bench.Close)
	address := strings.Replace(bench.URL, "http://", "http://lab:"+token+"@", 1)

	s := startOps(t, map[string]string{"CUTROOM_LAB": address})
	got := s.call(http.MethodPost, "/lab/kill", `{"worker":"workerrole-1"}`, "Authorization", "Bearer of-another", "Cookie", "a=b")
	if got.StatusCode != http.StatusAccepted || string(got.body) != `{"says":"done"}` || got.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("answer: %d %s", got.StatusCode, got.body)
	}
	r := <-seen
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/api/v1/lab/kill" || string(body) != `{"worker":"workerrole-1"}` || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the lab was asked %s with %q", r.URL.Path, body)
	}
	if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("Cookie") != "" {
		t.Errorf("the lab was shown %q and %q", r.Header.Get("Authorization"), r.Header.Get("Cookie"))
	}
	s.call(http.MethodPost, "/lab/kill", `{}`, "Host", "evil.example").want(t, 421, "host_not_allowed")
	s.call(http.MethodPost, "/lab/kill", `{}`, "Sec-Fetch-Site", "cross-site").want(t, 403, "cross_origin")
	if got := s.send(s.request(http.MethodGet, s.admin+"/api/v1/lab", nil)); got.StatusCode != http.StatusNotFound {
		t.Errorf("the lab on the admin listener: %d", got.StatusCode)
	}

	open := start(t, map[string]string{"CUTROOM_LAB": address, "WEBROLE_ADDR": "0.0.0.0:0", "WEBROLE_TOKEN": token})
	without := start(t, nil)
	for _, s := range []*server{open, without} {
		s.call(http.MethodGet, "/lab", nil, "Authorization", "Bearer "+token).want(t, 404, "not_found")
		s.call(http.MethodPost, "/lab/kill", `{"worker":"workerrole-1"}`, "Authorization", "Bearer "+token).want(t, 404, "not_found")
	}
	without.call(http.MethodPost, "/lab/scenes/the-race", `{}`, "Authorization", "Bearer "+token).want(t, 404, "not_found")
	open.call(http.MethodPost, "/lab/scenes/the-race", `{}`).want(t, 401, "unauthorized")
	if n := len(seen); n != 0 {
		t.Errorf("the lab was asked %d times by requests that were refused", n)
	}
	if got := open.call(http.MethodPost, "/lab/scenes/the-race", `{}`, "Authorization", "Bearer "+token); got.StatusCode != http.StatusAccepted || (<-seen).URL.Path != "/api/v1/lab/scenes/the-race" {
		t.Errorf("an operator's scene where others reach the web role: %d %s", got.StatusCode, got.body)
	}

	if page := string(s.get("/board").body); !strings.Contains(page, `id="lab"`) {
		t.Error("the board has no lab")
	}
	if page := string(without.get("/board").body); strings.Contains(page, `id="lab"`) || strings.Contains(page, "lab.js") {
		t.Error("the board has a lab where there is none")
	}
	if page := string(s.get("/learn/stale-receipt").body); !strings.Contains(page, `id="go"`) || !strings.Contains(page, "pop receipt") {
		t.Error("the page of a scene does not play it where there is a lab")
	}
	if page := string(without.get("/learn/stale-receipt").body); strings.Contains(page, "scene.js") || !strings.Contains(page, "pop receipt") || !strings.Contains(page, "make scene NAME=stale-receipt") {
		t.Error("the page of a scene without a lab does not say what it is about and how it is played")
	}
	if got := s.get("/learn/no-such-scene"); got.StatusCode != http.StatusNotFound {
		t.Errorf("the page of a scene that is not there: %d", got.StatusCode)
	}
	bench.Close()
	s.call(http.MethodGet, "/lab", nil).want(t, 503, "lab_unavailable")
	for _, bad := range []string{"http://127.0.0.1:1", "http://lab:" + token + "@192.0.2.1:1", "https://lab:" + token + "@127.0.0.1:1", "nonsense"} {
		if _, err := loadConfig(lookup("CUTROOM_LAB", bad)); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("CUTROOM_LAB=%s: %v", bad, err)
		}
	}
}

func init() {
	parts = append(parts, part{
		routes: `operators GET /api/v1/lab
operators POST /api/v1/lab/:fault
operators GET /api/v1/lab/scenes
operators POST /api/v1/lab/scenes/:scene
operators GET /api/v1/lab/scene-runs/:run
`,
	})
}
