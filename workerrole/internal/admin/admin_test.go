package admin

import (
	"context"
	"net/http"
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
