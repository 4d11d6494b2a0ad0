package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A worker that stops says so for as long as it listens.
func TestDrainingIsNotReady(t *testing.T) {
	t.Parallel()
	s := &Server{Registry: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil }}
	working, drain := context.WithCancel(t.Context())
	defer drain()
	if err := s.Start(working, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	status := func(path string) int {
		t.Helper()
		resp, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := status("/readyz"); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	drain()
	if ready, alive := status("/readyz"), status("/livez"); ready != http.StatusServiceUnavailable || alive != http.StatusOK {
		t.Errorf("draining: ready %d, alive %d", ready, alive)
	}
}

// What an operator should know of a worker that is ready stands below the "ok".
func TestReadinessHasANote(t *testing.T) {
	t.Parallel()
	s := &Server{Registry: prometheus.NewRegistry(), Note: "ffmpeg is not held", Ready: func(context.Context) error { return nil }}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	resp, err := http.Get("http://" + s.Addr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "\n"+s.Note+"\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// Who does not have the token cannot hold a connection: a body that stalls, read or not,
// is answered, and the connection is closed. Headers without an end close it, too.
func TestRequestsThatStall(t *testing.T) {
	t.Parallel()
	s := started(t, "a token of enough length")
	const slack = 10 * time.Second // other programs have the processors, too
	for name, c := range map[string]struct {
		text   string
		status int
		within time.Duration
	}{
		"a body":           {"POST /debug/pprof/symbol HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\nx", 401, readTime},
		"a body in chunks": {"POST /debug/pprof/symbol HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 401, readTime},
		"a body of health": {"GET /livez HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\nx", 200, readTime},
		"a body with the token": {"POST /debug/pprof/symbol HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer " + s.Token +
			"\r\nContent-Length: 100\r\n\r\nx", 200, readTime},
		"headers without an end":    {"GET /livez HTTP/1.1\r\nHost: w\r\nX: x", 0, readTime},
		"headers that are too long": {"GET /livez HTTP/1.1\r\nHost: w\r\nX: " + strings.Repeat("x", 3*maxHeader) + "\r\n", 431, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			begin := time.Now()
			if err := conn.SetDeadline(begin.Add(c.within + slack)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, c.text); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if c.status == 0 {
				if errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
					t.Errorf("the connection stays open: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%d, closed: %v; want %d and closed", resp.StatusCode, resp.Close, c.status)
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
	if s.http.IdleTimeout != idleTime {
		t.Errorf("a connection without a request stays for %v, want %v", s.http.IdleTimeout, idleTime)
	}
}

// A profile takes longer than a request may.
func TestProfilesAreNotCutOff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: takes 7 s")
	}
	s := started(t, "")
	begin := time.Now()
	resp, err := http.Get("http://" + s.Addr() + "/debug/pprof/profile?seconds=7")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	if took := time.Since(begin); err != nil || resp.StatusCode != http.StatusOK || n == 0 || took < readTime+time.Second {
		t.Errorf("%d with %d bytes after %v: %v", resp.StatusCode, n, took, err)
	}
}

func started(t *testing.T, token string) *Server {
	t.Helper()
	s := &Server{Registry: prometheus.NewRegistry(), Token: token, Ready: func(context.Context) error { return nil }}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}
