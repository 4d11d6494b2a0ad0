package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

const testToken = "a-token-of-enough-letters"

// untilLimited asks until it is refused, at most often times, and returns how many
// requests were answered otherwise.
func untilLimited(t *testing.T, often int, ask func() answer) int {
	t.Helper()
	for n := range often {
		a := ask()
		if a.StatusCode != http.StatusTooManyRequests {
			continue
		}
		a.want(t, 429, "rate_limited")
		if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 10 {
			t.Errorf("Retry-After: %q", a.Header.Get("Retry-After"))
		}
		return n
	}
	return often
}

// TestRateLimit: each client has its own limit, which counts before the token is
// looked at, and a client cannot choose which one it is.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{
		"WEBROLE_RATE_LIMIT": "20", "WEBROLE_PLAYBACK_RATE_LIMIT": "40", "WEBROLE_TOKEN": testToken, "WEBROLE_TRUSTED_PROXIES": "127.0.0.1",
	})
	from := func(client, token string) func() answer {
		return func() answer {
			return s.call(http.MethodGet, "/videos", nil, "X-Forwarded-For", client, "Authorization", "Bearer "+token)
		}
	}
	const often = 200
	if n := untilLimited(t, often, from("198.51.100.1", "guess")); n < 20 || n == often {
		t.Errorf("%d guesses of a token were answered, want 20 and what comes back", n)
	}
	from("198.51.100.2", testToken)().want(t, http.StatusOK, "")
	n := 0
	if n = untilLimited(t, often, func() answer { n++; return from(strconv.Itoa(n)+".1.1.1, 198.51.100.3", testToken)() }); n < 20 || n == often {
		t.Errorf("a client that writes addresses before its own has %d requests", n)
	}
	page := func() answer {
		return s.get("/", "X-Forwarded-For", "198.51.100.4", "Authorization", "Bearer guess")
	}
	if n := untilLimited(t, often, page); n < 20 || n == often {
		t.Errorf("%d guesses at a page were answered", n)
	}
	play := func() answer {
		return s.get("/v/"+strings.Repeat("b", 26)+"/master.m3u8", "X-Forwarded-For", "198.51.100.2", "Authorization", "Bearer "+testToken)
	}
	if n := untilLimited(t, often, play); n < 40 || n == often {
		t.Errorf("%d requests for playback were answered, want 40 and what comes back", n)
	}
	if got := s.get("/livez", "X-Forwarded-For", "198.51.100.1"); got.StatusCode != http.StatusOK {
		t.Errorf("health is limited too: %d", got.StatusCode)
	}

	alone := start(t, map[string]string{"WEBROLE_RATE_LIMIT": "20"})
	n = 0
	ask := func() answer {
		n++
		return alone.call(http.MethodGet, "/videos", nil, "X-Forwarded-For", strconv.Itoa(n)+".1.1.1")
	}
	if n := untilLimited(t, often, ask); n < 20 || n == often {
		t.Errorf("without a trusted proxy a header is believed: %d requests", n)
	}
}

// TestOperationsInPublic: on the public listener operations are there when a setting says
// so, and where others are let in only with a token. Nothing else puts them there: a
// proxy on this host reaches a listener on loopback, too, and may call it 127.0.0.1.
func TestOperationsInPublic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  map[string]string
		on   bool
	}{
		{"loopback", nil, false},
		{"loopback, with a token", map[string]string{"WEBROLE_TOKEN": testToken}, false},
		{"an empty variable", map[string]string{"WEBROLE_PUBLIC_OPS": ""}, false},
		{"wanted on loopback", map[string]string{"WEBROLE_PUBLIC_OPS": "on"}, true},
		{"a name", map[string]string{"WEBROLE_HOSTS": "video.example.org"}, false},
		{"a proxy", map[string]string{"WEBROLE_TRUSTED_PROXIES": "10.0.0.0/8"}, false},
		{"switched off", map[string]string{"WEBROLE_PUBLIC_OPS": "off"}, false},
		{"a name, with a token", map[string]string{"WEBROLE_HOSTS": "video.example.org", "WEBROLE_TOKEN": testToken}, false},
		{"wanted, with a token", map[string]string{"WEBROLE_HOSTS": "video.example.org", "WEBROLE_TOKEN": testToken, "WEBROLE_PUBLIC_OPS": "on"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.env)
			status := http.StatusNotFound
			if c.on {
				status = http.StatusOK
			}
			for _, path := range []string{"/api/v1/ops/queues", "/api/v1/ops/workers", "/board/tables"} {
				if got := s.get(path, "Authorization", "Bearer "+testToken); got.StatusCode != status {
					t.Errorf("%s: %d, want %d", path, got.StatusCode, status)
				}
			}
			if c.env["WEBROLE_TOKEN"] != "" {
				s.get("/api/v1/ops/queues").want(t, 401, "unauthorized")
			}
			board := string(s.get("/board", "Authorization", "Bearer "+testToken).body)
			if says := strings.Contains(board, "WEBROLE_PUBLIC_OPS=on"); says == c.on || strings.Contains(board, `href="/board/tables"`) != c.on {
				t.Errorf("the board says what to set: %v, and operations are on: %v", says, c.on)
			}
			for _, path := range []string{"/metrics", "/debug/pprof/"} {
				s.get(path, "Authorization", "Bearer "+testToken).want(t, 404, "not_found")
			}
		})
	}
	for networks, status := range map[string]int{"192.0.2.0/24,::1": 404, "192.0.2.7,127.0.0.0/8": 200} {
		s := start(t, map[string]string{"WEBROLE_PUBLIC_OPS": "on", "WEBROLE_OPS_NETWORKS": networks})
		for _, path := range []string{"/api/v1/ops/queues", "/api/v1/ops/keys", "/board/tables"} {
			if got := s.get(path); got.StatusCode != status {
				t.Errorf("%s, for %s: %d, want %d", path, networks, got.StatusCode, status)
			}
		}
		if got := s.get("/api/v1/videos"); got.StatusCode != http.StatusOK {
			t.Errorf("videos, with operations for %s: %d", networks, got.StatusCode)
		}
	}
	for _, others := range []string{"WEBROLE_HOSTS", "WEBROLE_TRUSTED_PROXIES"} {
		env := map[string]string{"WEBROLE_PUBLIC_OPS": "on", others: "192.0.2.1"}
		if _, err := loadConfig(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "WEBROLE_PUBLIC_OPS") {
			t.Errorf("operations for everybody behind %s are accepted: %v", others, err)
		}
	}
}

// listeners are both listeners of a role with their routes.
func (s *server) listeners() map[string]gin.RoutesInfo {
	return map[string]gin.RoutesInfo{s.public: s.role.routes[0].Routes(), s.admin: s.role.routes[1].Routes()}
}

// addressOf fills in the parameters of a route.
func addressOf(route gin.RouteInfo, fill map[string]string) string {
	parts := strings.Split(route.Path, "/")
	for i, part := range parts {
		if part == "" || part[0] != ':' && part[0] != '*' {
			continue
		}
		parts[i] = fill[part[1:]]
		if parts[i] == "" {
			parts[i] = "nope"
		}
	}
	return strings.Join(parts, "/")
}

// TestConnectionsOfOneClient: of the connections that one client opens, and says nothing
// on, only so many stay. A trusted proxy may have more.
func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	const most = 8
	s := start(t, map[string]string{"WEBROLE_CONNECTIONS": strconv.Itoa(most)})
	closed := func(conn net.Conn, within time.Duration) bool {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	var held []net.Conn
	for range most {
		held = append(held, s.dial())
	}
	for range 20 {
		if !closed(s.dial(), 10*time.Second) {
			t.Error("a connection beyond the bound stays open")
		}
	}
	for i, conn := range held {
		if closed(conn, 20*time.Millisecond) {
			t.Errorf("connection %d of %d was closed", i, most)
		}
		_ = conn.Close()
	}
	azuritetest.Eventually(t, 10*time.Second, func() error { // when the server has noticed
		res, err := s.client.Get(s.public + "/livez")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
	metrics := s.send(s.request(http.MethodGet, s.admin+"/metrics", nil))
	if !strings.Contains(string(metrics.body), "\ncutroom_http_connections_refused_total 2") {
		t.Error("metrics do not count what was refused")
	}

	behind := start(t, map[string]string{"WEBROLE_CONNECTIONS": strconv.Itoa(most), "WEBROLE_TRUSTED_PROXIES": "127.0.0.1"})
	for range 3 * most {
		held = append(held, behind.dial())
	}
	if closed(held[len(held)-1], 200*time.Millisecond) {
		t.Error("a trusted proxy's connection was closed")
	}
}
