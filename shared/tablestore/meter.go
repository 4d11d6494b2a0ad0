package tablestore

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Class says how much of a table a query may read, the cheapest first (paper row T5).
type Class int

// The classes. No request of a user may be a Scan.
const (
	Point          Class = iota // one row, by both keys
	RowRange                    // a run of rows of one partition
	PartitionRange              // a run of partitions
	Scan                        // the whole table
	classes
)

// String returns "point", "row range", "partition range" or "scan".
func (c Class) String() string {
	switch c {
	case Point:
		return "point"
	case RowRange:
		return "row range"
	case PartitionRange:
		return "partition range"
	case Scan:
		return "scan"
	}
	return fmt.Sprintf("class %d", int(c))
}

// Meter counts what the calls below one context cost. It is safe for concurrent
// use. Retries are not counted: the numbers are those of the design, not of the
// network.
type Meter struct {
	parent   *Meter
	each     func() // nil, or called for every request
	requests atomic.Int64
	read     atomic.Int64
	byClass  [classes]atomic.Int64
}

type meterKey struct{}

// WithMeter returns a context below which every call is counted, in the new
// meter and in those of outer contexts.
func WithMeter(ctx context.Context) (context.Context, *Meter) {
	m := &Meter{parent: meterOf(ctx)}
	return context.WithValue(ctx, meterKey{}, m), m
}

// OnRequest returns a context below which f is called for every request. A step that
// makes many requests reports its progress this way, also while it is throttled.
func OnRequest(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, meterKey{}, &Meter{parent: meterOf(ctx), each: f})
}

// Requests is the number of requests, reads and writes.
func (m *Meter) Requests() int { return int(m.requests.Load()) }

// EntitiesRead is the number of rows that came back.
func (m *Meter) EntitiesRead() int { return int(m.read.Load()) }

// ByClass is the number of requests of one class. Writes count as Point.
func (m *Meter) ByClass(c Class) int {
	if c < 0 || c >= classes {
		return 0
	}
	return int(m.byClass[c].Load())
}

func meterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

func count(ctx context.Context, c Class, read int) {
	for m := meterOf(ctx); m != nil; m = m.parent {
		m.requests.Add(1)
		m.byClass[c].Add(1)
		m.read.Add(int64(read))
		if m.each != nil {
			m.each()
		}
	}
}

func countRead(ctx context.Context, read int) {
	for m := meterOf(ctx); m != nil; m = m.parent {
		m.read.Add(int64(read))
	}
}
