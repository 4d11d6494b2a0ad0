package rideout_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Storage that can be read and not written: what is ready plays on, what writes is told
// to come back, workers stop receiving, and afterwards everything goes on by itself
// (docs/operate.md).
func TestStorageThatCanOnlyBeRead(t *testing.T) {
	emulator := ownEmulator(t)
	proxy, err := inject.Start(emulator.ConnectionString(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := stacktest.Start(t, stack.Options{Workers: 1, ConnectionString: proxy.ConnectionString(), Env: []string{"CUTROOM_RECONCILE_INTERVAL=3s", "CUTROOM_RECONCILE_GRACE=3s"}})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(4*time.Minute))
	defer cancel()

	clip := clip(t)
	upload := func(title string) string {
		t.Helper()
		v, err := user.Announce(ctx, client.NewVideo{Title: title})
		if err != nil {
			t.Fatal(err)
		}
		if err := user.Put(ctx, v.Id, bytes.NewReader(clip), int64(len(clip))); err != nil {
			t.Fatal(err)
		}
		return v.Id
	}
	ready := upload("Ready before")
	if _, err := user.AwaitReady(ctx, ready); err != nil {
		t.Fatal(err)
	}
	var waiting []string // some are in work, some wait
	for range 6 {
		waiting = append(waiting, upload("Waiting"))
	}
	proxy.BeginAll(inject.ReadOnly)

	awaitBreaker(ctx, t, s, true)
	for range 5 {
		if n, err := user.FirstSegment(ctx, ready); err != nil || n == 0 {
			t.Errorf("a ready video does not play: %d bytes, %v", n, err)
		}
		if list, err := user.API().ListVideosWithResponse(ctx, nil); err != nil || list.StatusCode() != http.StatusOK {
			t.Errorf("the list: %v", refused("list", err, list))
		}
	}
	title := "Another"
	var asked sync.WaitGroup
	for what, ask := range map[string]func() (*http.Response, error){
		"announce": func() (*http.Response, error) {
			res, err := user.API().CreateVideoWithResponse(ctx, nil, client.NewVideo{Title: title})
			return res.HTTPResponse, err
		},
		"edit": func() (*http.Response, error) {
			any := "*"
			res, err := user.API().EditVideoWithResponse(ctx, ready, &client.EditVideoParams{IfMatch: &any}, client.VideoEdit{Title: &title})
			return res.HTTPResponse, err
		},
		"delete": func() (*http.Response, error) {
			res, err := user.API().DeleteVideoWithResponse(ctx, ready, nil)
			return res.HTTPResponse, err
		},
	} {
		asked.Go(func() {
			began := time.Now()
			res, err := ask()
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d, Retry-After %q; want 503 with it", what, res.StatusCode, res.Header.Get("Retry-After"))
			}
			t.Logf("%s: %d after %v", what, res.StatusCode, time.Since(began).Round(time.Millisecond))
		})
	}
	asked.Wait()

	proxy.Calm()
	for _, id := range waiting {
		if _, err := user.AwaitReady(ctx, id); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if v, err := user.Video(ctx, ready); err != nil || v.Title != "Ready before" || v.State != client.Ready {
		t.Errorf("what was refused happened: %+v, %v", v, err)
	}
	awaitBreaker(ctx, t, s, false)
	if poison, err := user.API().ListPoisonWithResponse(ctx, nil); err != nil || poison.JSON200 == nil || len(poison.JSON200.Items) > 0 {
		t.Errorf("poison: %v", refused("list poison", err, poison))
	}
	t.Logf("requests that were refused: %v", proxy.Happened())
}

// awaitBreaker waits until a breaker of the worker is open, or all are closed.
func awaitBreaker(ctx context.Context, t *testing.T, s *stack.Stack, open bool) {
	t.Helper()
	azuritetest.Eventually(t, 90*time.Second, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AdminURL("workerrole-1")+"/metrics", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		var states []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "cutroom_breaker_state{") {
				states = append(states, strings.TrimSpace(line))
			}
		}
		for _, state := range states {
			if !strings.HasSuffix(state, " 0") {
				if open {
					return nil
				}
				return fmt.Errorf("a breaker is not closed: %s", state)
			}
		}
		if open {
			return fmt.Errorf("no breaker is open: %q", states)
		}
		return nil
	})
}
