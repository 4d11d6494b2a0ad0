package inject

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what happens to a request.
type Fault string

// The kinds of fault.
const (
	None       Fault = ""
	ServerBusy Fault = "503"            // ServerBusy, nothing applied
	TimedOut   Fault = "500"            // OperationTimedOut, nothing applied
	Forbidden  Fault = "403"            // AuthenticationFailed, nothing applied
	Immutable  Fault = "immutable blob" // 409 BlobImmutableDueToPolicy, nothing applied
	Reset      Fault = "reset"          // the connection breaks before the request arrives
	LostReply  Fault = "lost reply"     // the request is applied, then the connection breaks (paper row Q13)
	Silence    Fault = "silence"        // no answer comes until the caller or the burst gives up, nothing applied
	Delay      Fault = "delay"          // the request arrives late
	Late       Fault = "late answer"    // the request is applied, its answer is late
	Cut        Fault = "cut answer"     // the answer to a read ends in its middle
	Corrupt    Fault = "corrupt body"   // one bit of the body is another one when it arrives (paper row Q12)

	// ReadOnly refuses what changes anything, as ServerBusy does. To receive a message is a
	// change, too. Only a Proxy has it.
	ReadOnly Fault = "read-only"
)

// maxDelay bounds how long one request is delayed.
const maxDelay = 3 * time.Second

// Transport passes requests on, but for those that Choose picks. Put it into
// azstore.Config.Transport.
type Transport struct {
	// Choose is called for every try of every request, also at the same time.
	Choose func(*http.Request) Fault
	// Next sends what is let through; nil means a transport of the package's own.
	Next http.RoundTripper

	fired atomic.Int64
}

// plain drops idle connections before Azurite does, at 5 s: a request on a
// connection that is being closed would fail without a fault of ours.
var plain = &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 64}

// CloseIdle ends the idle connections of every Transport without a Next.
func CloseIdle() { plain.CloseIdleConnections() }

// Fired returns how many faults were injected. A test whose fault never fired has shown
// nothing.
func (t *Transport) Fired() int { return int(t.fired.Load()) }

// Do implements azcore's policy.Transporter.
func (t *Transport) Do(r *http.Request) (*http.Response, error) { return t.RoundTrip(r) }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	fault, next := t.Choose(r), t.Next
	if fault != None {
		t.fired.Add(1)
	}
	if next == nil {
		next = plain
	}
	return meet(r, fault, burstEnd{left: maxDelay}, next.RoundTrip)
}

// Once returns a Choose function that injects fault into the first n requests that match.
func Once(fault Fault, n int, match func(*http.Request) bool) func(*http.Request) Fault {
	var mu sync.Mutex
	return func(r *http.Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 || !match(r) {
			return None
		}
		n--
		return fault
	}
}

// DiesAt returns a Choose function for a process that dies at request n, counted from 0:
// fault is what becomes of that request, and none after it arrives.
func DiesAt(n int, fault Fault) func(*http.Request) Fault {
	var asked atomic.Int64
	return func(*http.Request) Fault {
		switch i := int(asked.Add(1)) - 1; {
		case i < n:
			return None
		case i == n:
			return fault
		}
		return Reset
	}
}

// burstEnd says when a request need not wait any longer.
type burstEnd struct {
	left time.Duration   // of the burst
	over <-chan struct{} // closed when the burst ends early
}

// meet is what becomes of a request. send lets it through.
func meet(r *http.Request, fault Fault, end burstEnd, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	switch fault {
	case ServerBusy, ReadOnly:
		return Refusal(r, http.StatusServiceUnavailable, "ServerBusy", "The server is busy."), nil
	case TimedOut:
		return Refusal(r, http.StatusInternalServerError, "OperationTimedOut", "Operation could not be completed within the specified time."), nil
	case Forbidden:
		return Refusal(r, http.StatusForbidden, "AuthenticationFailed", "Server failed to authenticate the request."), nil
	case Immutable:
		return Refusal(r, http.StatusConflict, "BlobImmutableDueToPolicy", "This operation is not permitted as the blob is immutable due to a policy."), nil
	case Reset:
		return nil, ErrReset
	case Silence:
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-end.over:
			return nil, ErrReset
		}
	case Delay:
		pause(r.Context(), min(end.left, maxDelay))
	case Corrupt:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body[len(body)/2] ^= 1
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := send(r)
	if err != nil {
		return nil, err
	}
	switch fault {
	case LostReply:
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return nil, ErrReset
	case Late:
		pause(r.Context(), min(end.left, maxDelay))
	case Cut:
		if r.Method == http.MethodGet && res.ContentLength > 1 {
			res.Body = &shortened{res.Body, res.ContentLength / 2}
		}
	}
	return res, nil
}

// shortened is a body that breaks off.
type shortened struct {
	io.ReadCloser
	left int64 // bytes
}

// Read returns ErrReset when the bytes that are let through have been read.
func (s *shortened) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, ErrReset
	}
	n, err := s.ReadCloser.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
