package provision

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/process"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const (
	missingRight = "AuthorizationPermissionMismatch"
	loopback     = "127.0.0.1:0"
)

// forbidding answers 403, as storage does before an assignment counts, while it is shut.
type forbidding struct {
	next  http.RoundTripper
	code  string
	looks func() bool // whether the request is refused
}

func (f forbidding) Do(r *http.Request) (*http.Response, error) {
	if !f.looks() {
		return f.next.RoundTrip(r)
	}
	header := http.Header{"X-Ms-Error-Code": {f.code}}
	return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Header: header, Body: http.NoBody, Request: r}, nil
}

// TestRoleWaitsForItsRights: while storage refuses a role it is alive, not ready, and says
// why; it starts when its rights count, and gives up when they never do.
func TestRoleWaitsForItsRights(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	granted, transport := make(chan struct{}), &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	account := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Transport = forbidding{transport, missingRight, func() bool {
			select {
			case <-granted:
				return false
			default:
				return true
			}
		}}
	})
	queues := azq.Open(account, azq.Options{Queues: nil})
	ensure := func() error { return Ensure(t.Context(), account, queues) }
	over := make(chan error, 1)
	go func() { over <- await(t.Context(), time.Hour, 10*time.Millisecond, addr, ensure) }()
	azuritetest.Eventually(t, 10*time.Second, func() error { return process.Ask(t.Context(), addr, "livez") })
	if err := process.Ask(t.Context(), addr, "readyz"); err == nil {
		t.Error("it is ready without rights")
	}
	close(granted)
	if err := <-over; err != nil {
		t.Errorf("with its rights: %v", err)
	}
	if err := process.Ask(t.Context(), addr, "livez"); err == nil {
		t.Error("the address is not free")
	}
	shut := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Transport = forbidding{code: missingRight, looks: func() bool { return true }}
	})
	never := func() error { return Ensure(t.Context(), shut, azq.Open(shut, azq.Options{Queues: nil})) }
	if err := await(t.Context(), 50*time.Millisecond, 10*time.Millisecond, loopback, never); !refused(err) {
		t.Errorf("rights that never come: %v", err)
	}
	wrong := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Transport = forbidding{code: wrongKey, looks: func() bool { return true }}
	})
	tries := 0
	err = await(t.Context(), time.Hour, time.Millisecond, loopback, func() error {
		tries++
		return Ensure(t.Context(), wrong, azq.Open(wrong, azq.Options{Queues: nil}))
	})
	if err == nil || tries != 1 {
		t.Errorf("a wrong key: %d tries, %v", tries, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := await(ctx, time.Hour, time.Hour, loopback, never); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it waits: %v", err)
	}
}
