package main

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// TestStorageAway: without storage requests fail with a problem that says so,
// and readiness with them.
func TestStorageAway(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	s := start(t, map[string]string{"CUTROOM_RETRY_STRATEGY": "none"})
	v := s.create(map[string]any{})
	if got := s.get("/readyz"); got.StatusCode != http.StatusOK {
		t.Fatalf("ready: %d %s", got.StatusCode, got.body)
	}
	if err := azuritetest.Clean(t.Context(), s.account); err != nil {
		t.Fatal(err)
	}
	a := s.call(http.MethodGet, "/videos/"+v.Id, nil)
	if !bytes.Contains(a.body, []byte(`"storageErrorCode":"TableNotFound"`)) {
		t.Errorf("the storage service's code is missing: %d %s", a.StatusCode, a.body)
	}
	azuritetest.Eventually(t, 5*time.Second, func() error { // an answer holds for a second
		if got := s.get("/readyz"); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
			return fmt.Errorf("ready without its tables: %d %s", got.StatusCode, got.body)
		}
		return nil
	})
	if got := s.get("/livez"); got.StatusCode != http.StatusOK {
		t.Errorf("not alive without storage: %d", got.StatusCode)
	}
}
