package azuritetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Fault is what happens to a request.
type Fault int

// The kinds of fault. They are those that Azurite never makes by itself.
const (
	None        Fault = iota
	ServerBusy        // 503 ServerBusy, nothing applied
	TimedOut          // 500 OperationTimedOut, nothing applied
	ResetBefore       // the connection breaks before the request arrives
	LostReply         // the request is applied, then the connection breaks (paper row Q13)
	Forbidden         // 403 AuthenticationFailed, nothing applied
	Silence           // no answer comes until the caller gives up, nothing applied
	Immutable         // 409 BlobImmutableDueToPolicy, nothing applied
)

// ErrReset is the transport error that a broken connection gives.
var ErrReset = errors.New("connection reset by peer (injected)")

// Faults is a transport that passes requests on, but for those that Choose
// picks. Put it into azstorage.Config.Transport.
type Faults struct {
	// Choose is called for every try of every request, also at the same time.
	Choose func(*http.Request) Fault
	// Next sends what is let through; nil means a client of the package's own.
	Next interface {
		Do(*http.Request) (*http.Response, error)
	}

	mu    sync.Mutex
	fired int
}

// FaultyAccount is the same account seen by a worker that may die at any request:
// through a transport that breaks as choose says, and without retries.
func FaultyAccount(t testing.TB, same *azstorage.Account, choose func(*http.Request) Fault) *azstorage.Account {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return AccountWith(t, func(cfg *azstorage.Config) {
		cfg.Prefix = same.Prefix()
		cfg.Retry = azstorage.Retry{Strategy: azstorage.NoRetry}
		cfg.Transport = &Faults{Choose: choose, Next: &http.Client{Transport: transport}}
	})
}

// plain drops idle connections before Azurite does, at 5 s: a request on a
// connection that is being closed would fail without a fault of ours.
var plain = &http.Client{Transport: &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 64}}

// Fired returns how many faults were injected. A test whose fault never fired
// has shown nothing.
func (f *Faults) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Once returns a Choose function that injects fault into the first n requests
// that match.
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

// DiesAt returns a Choose function for a process that dies at request n, counted
// from 0: fault is what becomes of that request, and none after it arrives.
func DiesAt(n int, fault Fault) func(*http.Request) Fault {
	var asked atomic.Int64
	return func(*http.Request) Fault {
		switch i := int(asked.Add(1)) - 1; {
		case i < n:
			return None
		case i == n:
			return fault
		}
		return ResetBefore
	}
}

// Do implements azcore's policy.Transporter.
func (f *Faults) Do(r *http.Request) (*http.Response, error) {
	fault := f.Choose(r)
	if fault != None {
		f.mu.Lock()
		f.fired++
		f.mu.Unlock()
	}
	switch fault {
	case ServerBusy:
		return answer(r, http.StatusServiceUnavailable, "ServerBusy"), nil
	case TimedOut:
		return answer(r, http.StatusInternalServerError, "OperationTimedOut"), nil
	case Forbidden:
		return answer(r, http.StatusForbidden, "AuthenticationFailed"), nil
	case Immutable:
		return answer(r, http.StatusConflict, "BlobImmutableDueToPolicy"), nil
	case ResetBefore:
		return nil, ErrReset
	case Silence:
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	next := f.Next
	if next == nil {
		next = plain
	}
	response, err := next.Do(r)
	if fault == LostReply && err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return nil, ErrReset
	}
	return response, err
}

// answer makes the service's own refusal.
func answer(r *http.Request, status int, code string) *http.Response {
	body := `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>injected</Message></Error>`
	header := http.Header{"Content-Type": {"application/xml"}, "X-Ms-Error-Code": {code}}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
