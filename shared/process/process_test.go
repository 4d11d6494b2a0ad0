package process

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAskTellsLiveFromReady(t *testing.T) {
	t.Parallel()
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "storage is away", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(role.Close)
	addr := role.Listener.Addr().String()
	_, port, _ := strings.Cut(addr, ":")
	for _, everywhere := range []string{addr, "0.0.0.0:" + port, ":" + port} {
		if err := Ask(t.Context(), everywhere, "livez"); err != nil {
			t.Errorf("livez at %s: %v", everywhere, err)
		}
	}
	if err := Ask(t.Context(), addr, "readyz"); err == nil || !strings.Contains(err.Error(), "storage is away") {
		t.Errorf("readyz: %v", err)
	}
	if err := Ask(t.Context(), addr, "metrics"); err == nil {
		t.Error("asked for metrics")
	}
	role.Close()
	if err := Ask(t.Context(), addr, "livez"); err == nil {
		t.Error("it reports success without a listener")
	}
}
