package azuritetest

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Outage stands between a program and the emulator's services and breaks them,
// each alone, on the wire: for programs that open the account themselves. Faults
// does the same for one account in this process.
type Outage struct {
	connection string

	mu     sync.Mutex
	faults map[azstorage.Service]Fault
	healed chan struct{} // closed at the next Set
	fired  int
}

// NewOutage opens a working way to the test's emulator. It closes with the test.
func NewOutage(t testing.TB) *Outage {
	t.Helper()
	o := &Outage{faults: map[azstorage.Service]Fault{}, healed: make(chan struct{}), connection: ConnectionString(t)}
	for service, name := range map[azstorage.Service]string{
		azstorage.Blobs: "BlobEndpoint=", azstorage.Queues: "QueueEndpoint=", azstorage.Tables: "TableEndpoint=",
	} {
		o.connection = interpose(t, o.connection, name, func(through *httputil.ReverseProxy) http.Handler {
			through.ErrorLog = log.New(io.Discard, "", 0) // callers that give up are expected
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { o.serve(service, through, w, r) })
		})
	}
	return o
}

// ConnectionString is the emulator's, by way of the outage.
func (o *Outage) ConnectionString() string { return o.connection }

// Set makes every request to a service meet a fault from now on; None heals it.
// LostReply is not one of them. It returns how many requests met a fault so far.
func (o *Outage) Set(service azstorage.Service, fault Fault) (fired int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults[service] = fault
	close(o.healed)
	o.healed = make(chan struct{})
	return o.fired
}

func (o *Outage) serve(service azstorage.Service, through http.Handler, w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	fault, healed := o.faults[service], o.healed
	if fault != None {
		o.fired++
	}
	o.mu.Unlock()
	switch fault {
	case None:
		through.ServeHTTP(w, r)
	case ServerBusy:
		w.Header().Set("X-Ms-Error-Code", "ServerBusy")
		w.WriteHeader(http.StatusServiceUnavailable)
	case Forbidden:
		w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
	case Silence:
		select {
		case <-r.Context().Done():
		case <-healed:
		}
		reset(w)
	default:
		reset(w)
	}
}

// reset breaks the connection with RST instead of an answer.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// interpose opens a server before the endpoint that is called name in a
// connection string, and returns the string with the server's address.
// Signatures cover the path and not the host, so requests go on unchanged.
func interpose(t testing.TB, connection, name string, wrap func(*httputil.ReverseProxy) http.Handler) string {
	t.Helper()
	parts := strings.Split(connection, ";")
	for i, part := range parts {
		address, is := strings.CutPrefix(part, name)
		if !is {
			continue
		}
		target, err := url.Parse(address)
		if err != nil {
			t.Fatalf("read the emulator's address: %v", err)
		}
		server := httptest.NewServer(wrap(&httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Host, r.Out.URL.Scheme = target.Host, target.Scheme },
			Transport: plain.Transport,
		}))
		t.Cleanup(server.Close)
		parts[i] = name + server.URL + target.Path
		return strings.Join(parts, ";")
	}
	t.Fatalf("the emulator's connection string has no %s", name)
	return ""
}
