package azuritetest

import (
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"testing"
)

// Tap stands between a program and all services of the emulator, and counts requests.
type Tap struct {
	connection string
	requests   atomic.Int64
}

// NewTap opens a tap to the test's emulator. It closes with the test.
func NewTap(t testing.TB) *Tap {
	t.Helper()
	tap := &Tap{connection: ConnectionString(t)}
	for _, service := range []string{"BlobEndpoint=", "QueueEndpoint=", "TableEndpoint="} {
		tap.connection = interpose(t, tap.connection, service, func(through *httputil.ReverseProxy) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tap.requests.Add(1)
				through.ServeHTTP(w, r)
			})
		})
	}
	return tap
}

// ConnectionString is the emulator's, by way of the tap.
func (t *Tap) ConnectionString() string { return t.connection }

// Requests is how many were made since the tap was opened.
func (t *Tap) Requests() int64 { return t.requests.Load() }
