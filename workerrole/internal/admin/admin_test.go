package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A worker that stops says so for as long as it listens.
func TestDrainingIsNotReady(t *testing.T) {
	t.Parallel()
	s := &Server{Registry: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil }}
	if err := s.Start(t.Context(), "127.0.0.1:0"); err != nil {
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
	s.Drain()
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
