package azstore

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// RequestKind is a kind of request that a price list tells apart, such as "blob.write".
type RequestKind string

// What is done. A message that is received, renewed or sent is a write; a list is a
// query of rows, or of names. The lease of a blob has the price of a read.
const (
	read   = "read"
	write  = "write"
	list   = "list"
	remove = "delete"
)

// RequestKinds are all kinds, in the order of the services.
func RequestKinds() (all []RequestKind) {
	for _, service := range []Service{Blobs, Queues, Tables} {
		for _, operation := range []string{write, read, list, remove} {
			all = append(all, kindOf(service, operation))
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

func kindOf(service Service, operation string) RequestKind {
	return RequestKind(string(service) + "." + operation)
}

// Counter counts the requests below one context, every try: what an account would be billed
// for. It is safe for concurrent use.
type Counter struct {
	outer *Counter

	mu     sync.Mutex
	counts Counts
}

// Counts is what a Counter has counted.
type Counts struct {
	Requests map[RequestKind]int
	Queries  map[string]int // calls of tables, by class
	Rows     int            // that came back from tables
	Sent     int64          // bytes of the bodies of requests
	Received int64          // bytes of the bodies of answers, as far as they were read
}

type (
	counterKey   struct{}
	onRequestKey struct{}
)

// WithCounter returns a context below which every request is counted, and the counter.
// Those of outer contexts count it, too. Around one call it tells how often that was tried: a
// conflict may be with an earlier try, whose reply was lost (Q13).
func WithCounter(ctx context.Context) (context.Context, *Counter) {
	c := &Counter{outer: counterOf(ctx), counts: Counts{Requests: map[RequestKind]int{}, Queries: map[string]int{}}}
	return context.WithValue(ctx, counterKey{}, c), c
}

// OnRequest returns a context below which f is called for every try of a request.
func OnRequest(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onRequestKey{}, f)
}

func counterOf(ctx context.Context) *Counter {
	c, _ := ctx.Value(counterKey{}).(*Counter)
	return c
}

// CountQuery counts a call of a table by its class, which package tablestore knows.
func CountQuery(ctx context.Context, class fmt.Stringer) {
	counterOf(ctx).add(func(c *Counts) { c.Queries[class.String()]++ })
}

// CountRows counts rows that came back from a table.
func CountRows(ctx context.Context, n int) { counterOf(ctx).add(func(c *Counts) { c.Rows += n }) }

// Counts returns what was counted so far.
func (c *Counter) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.counts
	now.Requests, now.Queries = maps.Clone(now.Requests), maps.Clone(now.Queries)
	return now
}

// Requests is the number of requests of all kinds.
func (c *Counter) Requests() (n int) {
	for _, of := range c.Counts().Requests {
		n += of
	}
	return n
}

// ByClass is the number of calls of one tablestore.Class. A write is a point.
func (c *Counter) ByClass(class fmt.Stringer) int { return c.Counts().Queries[class.String()] }

// add changes the counts of a counter, which may be nil, and of the outer ones.
func (c *Counter) add(change func(*Counts)) {
	for ; c != nil; c = c.outer {
		c.mu.Lock()
		change(&c.counts)
		c.mu.Unlock()
	}
}

func (c *Counter) received(n int64) { c.add(func(counts *Counts) { counts.Received += max(0, n) }) }

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
		case query.Get("comp") == "list", service == Tables && !strings.Contains(r.URL.Path, "(PartitionKey="): // it names one row by both keys otherwise
			return kindOf(service, list)
		case service == Queues && query.Get("comp") == "" && query.Get("peekonly") == "":
			return kindOf(service, write) // received: the message is hidden
		}
		return kindOf(service, read)
	}
	return kindOf(service, write)
}
