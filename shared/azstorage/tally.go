package azstorage

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// RequestKind is a kind of request that a price list tells apart: a service and what
// is done there, such as "blob.write".
type RequestKind string

// What is done. A message that is received, renewed or sent is a write; a list is a
// query of rows, or of names. A read asks for one blob, row or property, whether its
// content comes or not, and so does the lease of a blob, which the price list has among
// "other" operations at the price of a read.
const (
	read   = "read"
	write  = "write"
	list   = "list"
	remove = "delete"
)

// RequestKinds are all kinds, in the order of the services.
func RequestKinds() (all []RequestKind) {
	for _, service := range []Service{Blobs, Queues, Tables} {
		for _, what := range []string{write, read, list, remove} {
			all = append(all, kindOf(service, what))
		}
	}
	return all
}

// Kinds that are counted ahead of their requests. An entity-group transaction is one
// write, however many rows it has.
const (
	QueueWrite  RequestKind = "queue.write"
	TableWrite  RequestKind = "table.write"
	TableDelete RequestKind = "table.delete"
)

func kindOf(service Service, what string) RequestKind {
	return RequestKind(string(service) + "." + what)
}

// Tally counts the requests below one context: what an account would be billed for.
// Every try counts, also one that fails, for the service may have done the work. It is
// safe for concurrent use.
type Tally struct {
	mu     sync.Mutex
	counts Counts
}

// Counts is what a Tally has counted.
type Counts struct {
	Requests map[RequestKind]int
	Sent     int64 // bytes of the bodies of requests
	Received int64 // bytes of the bodies of answers, as far as they were read
}

type tallyKey struct{}

// WithTally returns a context below which every request is counted, and the counter.
// An outer Tally does not count them too.
func WithTally(ctx context.Context) (context.Context, *Tally) {
	t := &Tally{counts: Counts{Requests: map[RequestKind]int{}}}
	return context.WithValue(ctx, tallyKey{}, t), t
}

// Counts returns what was counted so far.
func (t *Tally) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.counts
	now.Requests = maps.Clone(now.Requests)
	return now
}

func (t *Tally) request(kind RequestKind, sent int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Requests[kind]++
	t.counts.Sent += max(0, sent)
}

func (t *Tally) received(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Received += max(0, n)
}

// counter counts tries: it stands behind the retryPolicy.
type counter struct {
	service Service
	seen    func(Try) // may be nil
}

// Do implements policy.Policy.
func (c counter) Do(req *policy.Request) (*http.Response, error) {
	tally, _ := req.Raw().Context().Value(tallyKey{}).(*Tally)
	if tally == nil && c.seen == nil {
		return req.Next()
	}
	kind, begun := Classify(c.service, req.Raw()), time.Now()
	if tally != nil {
		tally.request(kind, req.Raw().ContentLength)
	}
	resp, err := req.Next()
	if c.seen != nil {
		try := Try{Kind: kind, Took: time.Since(begun)}
		if resp != nil {
			try.Status = resp.StatusCode
		}
		c.seen(try)
	}
	if tally == nil || err != nil || resp == nil || resp.Body == nil {
		return resp, err
	}
	if whole, buffered := resp.Body.(io.Seeker); buffered {
		if size, err := whole.Seek(0, io.SeekEnd); err == nil {
			tally.received(size)
		}
		_, err = whole.Seek(0, io.SeekStart)
		return resp, err
	}
	if resp.Body != http.NoBody {
		resp.Body = &talliedBody{ReadCloser: resp.Body, tally: tally}
	}
	return resp, nil
}

// talliedBody counts what is read of a stream.
type talliedBody struct {
	io.ReadCloser
	tally *Tally
}

func (b *talliedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.tally.received(int64(n))
	return n, err
}

// Classify names the kind of a request by its method and address. What blobs are billed
// for: https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories
func Classify(service Service, r *http.Request) RequestKind {
	query := r.URL.Query()
	switch r.Method {
	case http.MethodDelete:
		return kindOf(service, remove)
	case http.MethodHead:
		return kindOf(service, read)
	case http.MethodPut:
		if service == Blobs && query.Get("comp") == "lease" {
			return kindOf(service, read)
		}
	case http.MethodGet:
		switch {
		case query.Get("comp") == "list", service == Tables && !namesRow(r.URL.Path):
			return kindOf(service, list)
		case service == Queues && query.Get("comp") == "" && query.Get("peekonly") == "":
			return kindOf(service, write) // received: the message is hidden
		}
		return kindOf(service, read)
	}
	return kindOf(service, write)
}

// namesRow reports whether the path of a table's address names one row by both keys.
func namesRow(path string) bool { return strings.Contains(path, "(PartitionKey=") }
