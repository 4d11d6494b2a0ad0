package azuritetest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// FaultyAccount is the same account seen by a worker that may die at any request:
// through a transport that breaks as choose says, and without retries.
func FaultyAccount(t testing.TB, same *azstore.Account, choose func(*http.Request) inject.Fault) *azstore.Account {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return AccountWith(t, func(cfg *azstore.Config) {
		cfg.Prefix = same.Prefix()
		cfg.Retry = azstore.Retry{Strategy: azstore.NoRetry}
		cfg.Transport = &inject.Transport{Choose: choose, Next: answered{transport}}
	})
}

// answered sends each request to its end, also when its sender has given up: what a dead
// process has sent is done before the test goes on, and not while it looks at the rows.
type answered struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err == nil && r.Context().Err() != nil {
		_ = res.Body.Close()
		return nil, context.Cause(r.Context())
	}
	return res, err
}

// NewProxy stands between a program that opens the account itself and the test's emulator,
// and disturbs nothing until it is told to. It closes with the test.
func NewProxy(t testing.TB) *inject.Proxy {
	t.Helper()
	p, err := inject.Start(ConnectionString(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// way opens a way to the test's emulator that closes with the test.
func way(t testing.TB, place func(azstore.Service, http.RoundTripper) http.RoundTripper) *inject.Way {
	t.Helper()
	w, err := inject.Open(ConnectionString(t), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Tap stands between a program and all services of the emulator, and counts requests.
type Tap struct {
	*inject.Way
	requests atomic.Int64
}

// NewTap opens a tap to the test's emulator. It closes with the test.
func NewTap(t testing.TB) *Tap {
	t.Helper()
	tap := &Tap{}
	tap.Way = way(t, func(_ azstore.Service, next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			tap.requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	return tap
}

// Requests is how many were made since the tap was opened.
func (t *Tap) Requests() int64 { return t.requests.Load() }
