// Package faultproxy stands before a storage emulator and disturbs it: requests
// are refused, delayed, lost, or applied with their answer lost, each service apart
// and for a while. Soak draws its bursts from a seed; in the stack of `make demo`
// and `make up` people press a button (package lab).
//
// Next: e2e/lab.
package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/partitions"
)

// Fault is what the proxy does to a request. They are those that the emulator
// never makes by itself.
type Fault string

// The kinds of fault.
const (
	Busy      Fault = "503"         // ServerBusy, nothing applied
	Reset     Fault = "reset"       // the connection breaks before the request arrives
	LostReply Fault = "lost reply"  // the request is applied, then the connection breaks (Q13)
	Delay     Fault = "delay"       // the request arrives late
	BlackHole Fault = "black hole"  // nothing comes back until the caller or the burst gives up
	Cut       Fault = "cut answer"  // the answer to a read ends in its middle
	Late      Fault = "late answer" // the request is applied, its answer is late

	// ReadOnly refuses what changes anything, as Busy does. To receive a message is a
	// change, too.
	ReadOnly Fault = "read-only"

	// Outage is of one blob: its first part can be read, the rest cannot, however
	// often a reader comes back.
	Outage Fault = "outage of a source"

	// LateWrite is a request that arrives after its sender has died, and Refused one
	// of them that the service refused. See Proxy.Hold.
	LateWrite Fault = "late commit"
	Refused   Fault = "late commit that was refused"
)

// Faults are those that a Burst may have, and that are drawn by chance. ReadOnly is for
// tests that know what they wait for.
var Faults = []Fault{Busy, Reset, LostReply, Delay, BlackHole, Cut, Late}

// Service is one of a storage account, as connection strings name it.
type Service string

// The services.
const (
	Blob  Service = "Blob"
	Queue Service = "Queue"
	Table Service = "Table"
)

// Services are all of them.
var Services = []Service{Blob, Queue, Table}

// Burst is one fault of one service for a while.
type Burst struct {
	Service Service
	Fault   Fault
	Share   float64 // of requests, 0 to 1
	Length  time.Duration
}

// Proxy stands before the three endpoints of an emulator. It forwards path, query
// and headers as they are, so that signatures hold, and large bodies as they come.
type Proxy struct {
	connection string // with the endpoints of the proxy
	fronts     []*front

	mu      sync.Mutex
	counts  map[string]int // "Blob 503" → requests
	parcels []*Parcel      // that no request was found for yet
	repeat  *repeat        // nil: none is wanted
}

// front is the listener before one service.
type front struct {
	proxy   *Proxy
	service Service
	target  *url.URL
	client  *http.Transport
	server  *http.Server

	mu    sync.Mutex
	rng   *rand.Rand
	now   Burst
	until time.Time
	over  chan struct{}     // closed when now is replaced or ended early
	out   map[string]outage // by a part of the path
}

type outage struct {
	share float64 // of the blob that can be read
	until time.Time
}

// Start listens on free ports of the loopback address and forwards to the endpoints
// that the connection string names, as Azurite's does. The seed decides which of the
// requests meet a fault.
func Start(connectionString string, seed uint64) (*Proxy, error) {
	p := &Proxy{connection: connectionString, counts: map[string]int{}}
	for n, service := range Services {
		origin := endpoint(connectionString, service)
		target, err := url.Parse(origin)
		if err != nil || target.Host == "" {
			p.Close()
			return nil, fmt.Errorf("fault proxy: the connection string names no %sEndpoint", service)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("fault proxy: %w", err)
		}
		f := &front{
			proxy: p, service: service, target: target, over: make(chan struct{}), out: map[string]outage{}, rng: rand.New(rand.NewPCG(seed, uint64(n))),
			// The emulator closes idle connections after 5 s: ours go before.
			client: &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 256, DisableCompression: true},
		}
		f.server = &http.Server{Handler: f, ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Second}
		p.fronts = append(p.fronts, f)
		go func() { _ = f.server.Serve(listener) }()
		through := *target
		through.Host = listener.Addr().String()
		p.connection = strings.Replace(p.connection, origin, through.String(), 1)
	}
	return p, nil
}

// ConnectionString is the one that Start was given, with all services behind the
// proxy.
func (p *Proxy) ConnectionString() string { return p.connection }

func endpoint(connectionString string, service Service) string {
	for pair := range strings.SplitSeq(connectionString, ";") {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), string(service)+"Endpoint") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() {
	for _, f := range p.fronts {
		_ = f.server.Close()
		f.client.CloseIdleConnections()
	}
}

// Begin replaces whatever disturbs the service of b.
func (p *Proxy) Begin(b Burst) {
	for _, f := range p.fronts {
		if f.service == b.Service {
			f.begin(b)
		}
	}
}

// Outage makes the last part of every blob whose path contains name unreadable for a
// while.
func (p *Proxy) Outage(name string, share float64, length time.Duration) {
	for _, f := range p.fronts {
		if f.service == Blob {
			f.mu.Lock()
			f.out[name] = outage{share, time.Now().Add(length)}
			f.mu.Unlock()
		}
	}
}

// readable is how many bytes of an answer get through an outage; all of them
// when there is none.
func (f *front) readable(r *http.Request, res *http.Response) (int64, bool) {
	if r.Method != http.MethodGet || res.ContentLength < 1 {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, o := range f.out {
		if !strings.Contains(r.URL.Path, name) || time.Now().After(o.until) {
			continue
		}
		var from, to int64
		total := res.ContentLength
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total); err != nil {
			from = 0
		}
		if limit := int64(o.share*float64(total)) - from; limit < res.ContentLength {
			f.count(Outage)
			return max(limit, 0), true
		}
	}
	return 0, false
}

func countName(s Service, f Fault) string { return string(s) + " " + string(f) }

func (f *front) count(fault Fault) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.counts[countName(f.service, fault)]++
}

// Calm ends all faults.
func (p *Proxy) Calm() {
	for _, f := range p.fronts {
		f.begin(Burst{})
		f.mu.Lock()
		clear(f.out)
		f.mu.Unlock()
	}
}

func (f *front) begin(b Burst) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.over)
	f.now, f.until, f.over = b, time.Now().Add(b.Length), make(chan struct{})
}

// Happened is how many requests met each fault, by service and fault: "Blob 503".
func (p *Proxy) Happened() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Met is how many requests of a service met a fault.
func (p *Proxy) Met(s Service, f Fault) int { return p.Happened()[countName(s, f)] }

// fate chooses what happens to a request, until when the burst lasts, and what is
// closed when it ends before that.
func (f *front) fate(r *http.Request) (Fault, time.Time, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().After(f.until) || f.rng.Float64() >= f.now.Share || f.now.Fault == Cut && r.Method != http.MethodGet || f.now.Fault == ReadOnly && f.reads(r) {
		return "", f.until, f.over
	}
	f.count(f.now.Fault)
	return f.now.Fault, f.until, f.over
}

// reads reports whether a request changes nothing.
func (f *front) reads(r *http.Request) bool {
	receives := f.service == Queue && strings.HasSuffix(r.URL.Path, "/messages") && r.URL.Query().Get("peekonly") != "true"
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !receives
}

// maxDelay bounds how long one request is delayed.
const maxDelay = 3 * time.Second

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, until, over := f.fate(r)
	delay := min(time.Until(until), maxDelay)
	switch fault {
	case Busy, ReadOnly:
		busy(w, r)
		return
	case Reset:
		partitions.BreakConnection(w)
		return
	case Delay:
		pause(r.Context(), delay)
	case BlackHole:
		select {
		case <-over:
		case <-r.Context().Done():
		case <-time.After(time.Until(until)):
		}
		partitions.BreakConnection(w)
		return
	}
	body, err := small(r)
	if err != nil {
		partitions.BreakConnection(w)
		return
	}
	late := f.service == Table && r.Method == http.MethodPost && f.proxy.keep(body)
	res, err := f.forward(r, body)
	if err != nil {
		partitions.BreakConnection(w)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if late {
		answer, _ := io.ReadAll(res.Body)
		f.count(LateWrite)
		if bytes.Contains(answer, []byte("412 Precondition Failed")) {
			f.count(Refused)
		}
		partitions.BreakConnection(w)
		return
	}
	f.again(r, body, res.StatusCode)
	switch fault {
	case LostReply:
		_, _ = io.Copy(io.Discard, res.Body)
		partitions.BreakConnection(w)
		return
	case Late:
		pause(r.Context(), delay)
	}
	f.pass(w, r, res, fault)
}

// pass gives an answer to the client, whole or in part.
func (f *front) pass(w http.ResponseWriter, r *http.Request, res *http.Response, fault Fault) {
	limit, out := f.readable(r, res)
	if out && limit == 0 {
		partitions.BreakConnection(w)
		return
	}
	header := w.Header()
	for name, values := range res.Header {
		header[name] = values
	}
	for _, name := range partitions.ConnectionHeaders {
		header.Del(name)
	}
	answer := io.Reader(res.Body)
	if res.ContentLength >= 0 && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified {
		header.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	if fault == Cut && r.Method == http.MethodGet && res.ContentLength > 1 {
		answer = io.LimitReader(res.Body, res.ContentLength/2)
	}
	if out {
		answer = io.LimitReader(res.Body, limit)
	}
	w.WriteHeader(res.StatusCode)
	_, err := io.Copy(w, answer)
	if err != nil || fault == Cut || out {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // the client sees that the answer is not whole
	}
}

// small reads a body that is not large, so that it can be looked at, and sent
// again when an idle connection was closed. Others are nil.
func small(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > 1<<20 {
		return nil, nil
	}
	return io.ReadAll(r.Body)
}

func (f *front) forward(r *http.Request, content []byte) (*http.Response, error) {
	to := *r.URL
	to.Scheme, to.Host = f.target.Scheme, f.target.Host
	// The server acts, whatever becomes of the client meanwhile.
	ctx := context.WithoutCancel(r.Context())
	var body io.Reader = r.Body
	if content != nil {
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host, req.ContentLength = &to, r.Host, r.ContentLength // keeps the path's own escapes
	req.Header = r.Header.Clone()
	for _, name := range partitions.ConnectionHeaders {
		req.Header.Del(name)
	}
	return f.client.RoundTrip(req)
}

// busy answers as the services do: the code in the header, too.
func busy(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-ms-error-code", "ServerBusy")
	w.Header().Set("x-ms-version", "2021-06-08")
	if strings.Contains(r.Header.Get("Accept"), "json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is busy."}}}`)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>ServerBusy</Code><Message>The server is busy.</Message></Error>`)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
