// Package rowstream reads rows from several partitions, in the order of their
// RowKeys, as if they were one list: a list that a suffix spreads over partitions
// (paper rows S2, S3), or the posting lists of a search.
//
// A list has one operation, Seek: the first row at or after a RowKey. It answers from rows
// that were read ahead, or asks the table for `RowKey ge …`, a row range scan (T5). So union
// and intersection are streaming merges.
package rowstream

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Row is a row of a list: its RowKey, and what the list reads of it.
type Row[T any] struct {
	Key   string
	Value T
}

// List is a list of rows with ascending, distinct RowKeys.
type List[T any] interface {
	// Seek returns the first row whose RowKey is from or greater, or nil when there is
	// none. Seeks go forward only: from never decreases.
	Seek(ctx context.Context, from string) (*Row[T], error)
}

// KeyAfter is the least RowKey that can follow rowKey: no character of a key comes before
// the space.
func KeyAfter(rowKey string) string { return rowKey + " " }

// All returns the rows of a list from a RowKey on. An error ends the sequence.
func All[T any](ctx context.Context, list List[T], from string) iter.Seq2[Row[T], error] {
	return func(yield func(Row[T], error) bool) {
		for {
			row, err := list.Seek(ctx, from)
			if err != nil {
				yield(Row[T]{}, err)
				return
			}
			if row == nil || !yield(*row, nil) {
				return
			}
			from = KeyAfter(row.Key)
		}
	}
}

// Read-ahead, in rows. A list that is read row by row doubles it; one that is skipped
// through, such as a common word beside a rare one, halves it.
const (
	minAhead = 2
	maxAhead = 128
)

// Partition is the List of the rows of one partition that match Filter (empty: all
// rows). It is for one goroutine.
type Partition[T any] struct {
	Table        *tablestore.Table
	PartitionKey string
	Filter       string // OData, answered by the service
	Ahead        int32  // rows to read first; 0 is a small number

	// Read decodes a row. One for which it returns an error is left out: see
	// tablestore.Query.
	Read func(tablestore.Entity) (T, error)

	rows []Row[T] // read ahead
	size int32    // rows asked for when they were read
	end  bool     // the table has no rows after them
}

// Seek implements List.
func (p *Partition[T]) Seek(ctx context.Context, from string) (*Row[T], error) {
	passed := false
	for len(p.rows) > 0 && p.rows[0].Key < from {
		p.rows, passed = p.rows[1:], true
	}
	switch {
	case len(p.rows) > 0 && passed: // what was read ahead is of use
		p.Ahead = min(p.size*2, maxAhead)
	case len(p.rows) == 0 && !p.end:
		if err := p.fetch(ctx, from); err != nil {
			return nil, fmt.Errorf("reading partition %q: %w", p.PartitionKey, err)
		}
	}
	if len(p.rows) == 0 {
		return nil, nil
	}
	return &p.rows[0], nil
}

// fetch reads the rows from a place on.
func (p *Partition[T]) fetch(ctx context.Context, from string) error {
	var rows []Row[T]
	p.size = max(p.Ahead, minAhead)
	_, next, err := p.Table.Page(ctx, tablestore.Query{
		PartitionKey: p.PartitionKey, RowFrom: from, Filter: p.Filter, PageSize: p.size, Class: tablestore.RowRange,
		Read: tablestore.Into(&rows, func(row tablestore.Entity) (Row[T], error) {
			value, err := p.Read(row)
			return Row[T]{row.RowKey, value}, err
		}),
	}, "")
	if err == nil {
		p.rows, p.end, p.Ahead = rows, next == "", p.size/2
	}
	return err
}

// Union is the List of the rows of all its lists; of rows with equal RowKeys it
// shows one. It asks its lists at the same time.
type Union[T any] struct{ Lists []List[T] }

// Seek implements List.
func (u *Union[T]) Seek(ctx context.Context, from string) (first *Row[T], _ error) {
	rows := make([]*Row[T], len(u.Lists))
	group, ctx := errgroup.WithContext(ctx)
	for i, list := range u.Lists {
		group.Go(func() (err error) {
			rows[i], err = list.Seek(ctx, from)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row != nil && (first == nil || row.Key < first.Key) {
			first = row
		}
	}
	return first, nil
}

// Intersection is the List of the rows that occur in all its lists. They are asked in
// turn, each for the place that the one before has reached, so that a gap in one is skipped
// in the others. So the cost is proportional to the length of the shortest list. The rows
// are those of any of the lists.
type Intersection[T any] struct {
	Lists []List[T]

	// Stop, when set, is asked before every seek, with the place reached so far, whether
	// the list ends there: the way to stop an expensive search.
	Stop func(from string) bool

	turn int // of the list that is asked next
}

// Seek implements List.
func (x *Intersection[T]) Seek(ctx context.Context, from string) (*Row[T], error) {
	for agreed := 0; ; {
		if x.Stop != nil && x.Stop(from) {
			return nil, nil
		}
		row, err := x.Lists[x.turn].Seek(ctx, from)
		if err != nil || row == nil {
			return nil, err
		}
		x.turn = (x.turn + 1) % len(x.Lists)
		if row.Key > from {
			from, agreed = row.Key, 0
		}
		if agreed++; agreed == len(x.Lists) {
			return row, nil
		}
	}
}
