package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
)

// TestReadinessAsksOnce: however many ask, and no matter which of them leaves, storage is
// asked once, and again when the answer is old.
func TestReadinessAsksOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	release := make(chan struct{})
	r := &readiness{probe: func(ctx context.Context, _ engine.ID) (bool, error) {
		asked.Add(1)
		select {
		case <-release:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}}
	gone, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := r.check(gone); err != nil {
				t.Errorf("ready: %v", err)
			}
		})
	}
	leave()
	close(release)
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("storage was asked %d times, want once", n)
	}
	azuritetest.Eventually(t, 5*time.Second, func() error {
		if err := r.check(t.Context()); err != nil || asked.Load() != 2 {
			return fmt.Errorf("asked %d times: %w", asked.Load(), err)
		}
		return nil
	})
	r.draining.Store(true)
	if err := r.check(t.Context()); !errors.Is(err, errDraining) {
		t.Errorf("draining: %v", err)
	}
}

// TestDrain stops a role with an upload under way: first both listeners say that
// they are not ready, and still answer; then the public one closes while the
// upload goes on; the admin listener answers to the end.
func TestDrain(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	delay := min(azuritetest.Patience(3*time.Second), 15*time.Second) // long enough to see what happens meanwhile, and not to be taken for a stalled upload
	s := start(t, map[string]string{"WEBROLE_DRAIN_DELAY": delay.String(), "WEBROLE_DRAIN_TIMEOUT": "10m"})
	v := s.create(map[string]any{})
	for _, listener := range []string{s.public, s.admin} {
		if got := s.send(s.request(http.MethodGet, listener+"/readyz", nil)); got.StatusCode != http.StatusOK {
			t.Fatalf("before: %d %s", got.StatusCode, got.body)
		}
	}
	content := movie(100_000)
	reader, writer := io.Pipe()
	defer writer.Close() //nolint:errcheck // a pipe's Close returns nil
	req := s.request(http.MethodPut, s.public+"/api/v1/videos/"+v.Id+"/content", nil)
	req.Body, req.ContentLength = reader, int64(len(content))
	uploaded := make(chan answer, 1)
	go func() { uploaded <- s.send(req) }()
	if _, err := writer.Write(content[:1000]); err != nil {
		t.Fatal(err)
	}

	begin := time.Now()
	s.stop()
	open := func() bool { return time.Since(begin) < delay }
	// ask wants this status; a machine that is too slow to ask while a listener is open sees nothing.
	ask := func(address string, status int, says string) error {
		res, err := http.DefaultClient.Do(s.request(http.MethodGet, address, nil))
		if err != nil && !open() {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != status || !bytes.Contains(text, []byte(says)) {
			return fmt.Errorf("%s: %d %s, %v", address, res.StatusCode, text, err)
		}
		return nil
	}
	azuritetest.Eventually(t, 1500*time.Millisecond, func() error {
		return errors.Join(ask(s.public+"/readyz", http.StatusServiceUnavailable, "stopping"), ask(s.admin+"/readyz", http.StatusServiceUnavailable, "stopping"))
	})
	if err := ask(s.public+"/api/v1/videos/"+v.Id, http.StatusOK, v.Id); err != nil {
		t.Error(err)
	}
	azuritetest.Eventually(t, delay+10*time.Second, func() error {
		// Not by dialling alone: another test may have been given the port.
		res, err := http.DefaultClient.Do(s.request(http.MethodGet, s.public+"/readyz", nil))
		if err != nil {
			return nil
		}
		defer func() { _ = res.Body.Close() }()
		if text, err := io.ReadAll(res.Body); err == nil && bytes.Contains(text, []byte("stopping")) {
			return errors.New("the public listener is open")
		}
		return nil
	})
	if open() {
		t.Errorf("the public listener closed before %v were over", delay)
	}
	if got := s.send(s.request(http.MethodGet, s.admin+"/readyz", nil)); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the admin listener while the upload goes on: %d", got.StatusCode)
	}
	if _, err := writer.Write(content[1000:]); err != nil {
		t.Fatal(err)
	}
	(<-uploaded).want(t, http.StatusAccepted, "")
}
