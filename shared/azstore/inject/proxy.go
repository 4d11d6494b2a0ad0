package inject

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// What only a Proxy does, and counts.
const (
	// Outage is of one blob: its first part can be read, the rest cannot, however
	// often a reader comes back.
	Outage Fault = "outage of a source"

	// LateWrite is a request that arrives after its sender has died, and LateRefused one
	// of them that the service refused. See Proxy.Hold.
	LateWrite   Fault = "late commit"
	LateRefused Fault = "late commit that was refused"
)

// Drawn are the faults that are drawn by chance. The others are for tests that know what
// they wait for.
var Drawn = []Fault{ServerBusy, Reset, LostReply, Delay, Silence, Cut, Late}

// Burst is one fault of one service for a while.
type Burst struct {
	Service azstore.Service
	Fault   Fault
	Share   float64       // of requests, to 1; 0: all
	Length  time.Duration // 0: until the next burst of the service
}

// Proxy stands before the services of an emulator and disturbs each of them as it is told.
// It is safe for concurrent use.
type Proxy struct {
	*Way
	fronts map[azstore.Service]*front

	mu     sync.Mutex
	counts map[string]int // "blob 503" → requests
	held   []*Held        // that no request was found for yet
	repeat *repeat        // nil: none is wanted
}

// front is what stands before one service.
type front struct {
	proxy   *Proxy
	service azstore.Service
	next    http.RoundTripper

	mu     sync.Mutex
	rng    *rand.Rand
	now    Burst
	until  time.Time     // zero: without an end
	over   chan struct{} // closed when now is replaced or has ended
	out    map[string]outage
	ending *time.Timer // closes over
}

type outage struct {
	share float64 // of the blob that can be read
	until time.Time
}

// Start stands before all services that the connection string names, as Azurite's does.
// The seed decides which of the requests meet a fault.
func Start(connectionString string, seed uint64) (*Proxy, error) {
	p := &Proxy{counts: map[string]int{}, fronts: map[azstore.Service]*front{}}
	var err error
	p.Way, err = Open(connectionString, func(service azstore.Service, next http.RoundTripper) http.RoundTripper {
		n := uint64(len(p.fronts))
		p.fronts[service] = &front{
			proxy: p, service: service, next: next, over: make(chan struct{}), out: map[string]outage{}, rng: rand.New(rand.NewPCG(seed, n)),
		}
		return p.fronts[service]
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Begin replaces whatever disturbs the service of b.
func (p *Proxy) Begin(b Burst) { p.fronts[b.Service].begin(b) }

// BeginAll makes all requests to all services meet a fault until the next burst.
func (p *Proxy) BeginAll(fault Fault) {
	for _, service := range Services {
		p.Begin(Burst{Service: service, Fault: fault})
	}
}

// Calm ends all faults.
func (p *Proxy) Calm() {
	p.BeginAll(None)
	for _, f := range p.fronts {
		f.mu.Lock()
		clear(f.out)
		f.mu.Unlock()
	}
}

// Outage makes the last part of every blob whose path contains name unreadable for a
// while.
func (p *Proxy) Outage(name string, share float64, length time.Duration) {
	f := p.fronts[azstore.Blobs]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out[name] = outage{share, time.Now().Add(length)}
}

// Happened is how many requests met each fault, by service and fault: "blob 503".
func (p *Proxy) Happened() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Met is how many requests of a service met a fault.
func (p *Proxy) Met(s azstore.Service, f Fault) int { return p.Happened()[countName(s, f)] }

func countName(s azstore.Service, f Fault) string { return string(s) + " " + string(f) }

func (f *front) count(fault Fault) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.counts[countName(f.service, fault)]++
}

func (f *front) begin(b Burst) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending == nil || f.ending.Stop() {
		close(f.over)
	}
	over := make(chan struct{})
	f.now, f.until, f.over, f.ending = b, time.Time{}, over, nil
	if b.Length > 0 {
		f.until = time.Now().Add(b.Length)
		f.ending = time.AfterFunc(b.Length, func() { close(over) })
	}
}

// fate chooses what happens to a request, and until when the burst lasts.
func (f *front) fate(r *http.Request) (Fault, burstEnd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := burstEnd{maxDelay, f.over}
	if !f.until.IsZero() {
		end.left = time.Until(f.until)
	}
	spared := f.now.Share > 0 && f.rng.Float64() >= f.now.Share
	if end.left <= 0 || spared || f.now.Fault == None || f.now.Fault == Cut && r.Method != http.MethodGet || f.now.Fault == ReadOnly && f.reads(r) {
		return None, end
	}
	f.count(f.now.Fault)
	return f.now.Fault, end
}

// reads reports whether a request changes nothing.
func (f *front) reads(r *http.Request) bool {
	receives := f.service == azstore.Queues && strings.HasSuffix(r.URL.Path, "/messages") && r.URL.Query().Get("peekonly") != "true"
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !receives
}

// RoundTrip implements http.RoundTripper.
func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	fault, end := f.fate(r)
	r, content, err := small(r)
	if err != nil {
		return nil, err
	}
	if fault == Silence && content == nil {
		_, _ = io.Copy(io.Discard, r.Body) // a network takes what is sent
	}
	return meet(r, fault, end, func(r *http.Request) (*http.Response, error) { return f.carry(r, content) })
}

// small reads a body that is not large, so that it can be looked at, and sent again when an
// idle connection was closed. Of others content is nil.
func small(r *http.Request) (_ *http.Request, content []byte, err error) {
	if r.Body == nil {
		return r, []byte{}, nil
	}
	if r.ContentLength < 0 || r.ContentLength > 1<<20 {
		return r, nil, nil
	}
	if content, err = io.ReadAll(r.Body); err != nil {
		return nil, nil, fmt.Errorf("read a request: %w", err)
	}
	r = r.WithContext(r.Context())
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	r.Body, _ = r.GetBody()
	return r, content, nil
}

// carry lets a request arrive. The service acts, whatever becomes of the client meanwhile.
func (f *front) carry(r *http.Request, content []byte) (*http.Response, error) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	late := f.service == azstore.Tables && r.Method == http.MethodPost && f.proxy.keep(content)
	res, err := f.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if late {
		answer, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		f.count(LateWrite)
		if bytes.Contains(answer, []byte("412 Precondition Failed")) {
			f.count(LateRefused)
		}
		return nil, ErrReset
	}
	f.again(r, content, res.StatusCode)
	if limit, out := f.readable(r, res); out {
		res.Body = &shortened{res.Body, limit}
	}
	return res, nil
}

// readable is how many bytes of an answer get through an outage; false when there is none.
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
