// Package rowstream reads rows from several partitions, in the order of their
// RowKeys, as if they were one list: a list that a suffix spreads over partitions
// (paper rows S2, S3), or the posting lists of a search.
//
// A list has one operation, Seek: the first row at or after a RowKey. It answers from rows
// that were read ahead, or asks the table for `RowKey ge …`, a row range scan (T5). So union
// and intersection are streaming merges.
//
// Next: shared/indexrows, how such rows are kept equal to the truth.
package rowstream

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cutroom/cutroom/shared/tablestore"
)

// List is a list of rows with ascending, distinct RowKeys.
type List interface {
	// Seek returns the first row whose RowKey is from or greater, or false when
	// there is none. Seeks go forward only: from never decreases.
	Seek(ctx context.Context, from string) (tablestore.Entity, bool, error)
}

// KeyAfter is the least RowKey that follows rowKey in the tables read here: their
// RowKeys end in a video's id and none is the beginning of another.
func KeyAfter(rowKey string) string { return rowKey + "!" }

// Read-ahead, in rows. A list that is read row by row doubles it; one that is skipped
// through, such as a common word beside a rare one, halves it.
const (
	minAhead = 2
	maxAhead = 128
)

// Partition is the List of the rows of one partition that match Filter (empty: all
// rows). It is for one goroutine.
type Partition struct {
	Table        *tablestore.Table
	PartitionKey string
	Filter       string // OData, answered by the service
	Ahead        int32  // rows to read first; 0 is a small number

	// Read, if set, leaves out rows: see tablestore.Query.
	Read func(tablestore.Entity) error

	rows []tablestore.Entity // read ahead
	more bool                // the table has rows after the last of rows
	read bool                // rows and more are known
	used bool                // rows answered a Seek since they were read
}

// Seek implements List.
func (p *Partition) Seek(ctx context.Context, from string) (tablestore.Entity, bool, error) {
	for len(p.rows) > 0 && p.rows[0].RowKey < from {
		p.rows = p.rows[1:]
	}
	if len(p.rows) > 0 {
		p.used = true
		return p.rows[0], true, nil
	}
	if p.read && !p.more {
		return tablestore.Entity{}, false, nil
	}
	switch {
	case p.Ahead == 0:
		p.Ahead = minAhead
	case p.read && p.used:
		p.Ahead = min(p.Ahead*2, maxAhead)
	case p.read:
		p.Ahead = max(p.Ahead/2, minAhead)
	}
	query := tablestore.Query{
		PartitionKey: p.PartitionKey, RowFrom: from, Filter: p.Filter,
		PageSize: p.Ahead, Class: tablestore.RowRange, Read: p.Read,
	}
	rows, next, err := p.Table.Page(ctx, query, "")
	if err != nil {
		return tablestore.Entity{}, false, fmt.Errorf("reading partition %q: %w", p.PartitionKey, err)
	}
	p.rows, p.more, p.read, p.used = rows, next != "", true, false
	if len(p.rows) == 0 {
		return tablestore.Entity{}, false, nil
	}
	return p.rows[0], true, nil
}

// Union is the List of the rows of all its lists; of rows with equal RowKeys it
// shows one. It asks its lists at the same time.
type Union struct {
	Lists []List

	heads []head
}

type head struct {
	row tablestore.Entity
	ok  bool
	set bool
	err error
}

// Seek implements List.
func (u *Union) Seek(ctx context.Context, from string) (tablestore.Entity, bool, error) {
	if u.heads == nil {
		u.heads = make([]head, len(u.Lists))
	}
	var wait sync.WaitGroup
	for i, list := range u.Lists {
		h := &u.heads[i]
		if h.set && (!h.ok || h.row.RowKey >= from) {
			continue
		}
		wait.Go(func() {
			h.row, h.ok, h.err = list.Seek(ctx, from)
			h.set = h.err == nil
		})
	}
	wait.Wait()
	best := -1
	for i, h := range u.heads {
		if h.err != nil {
			return tablestore.Entity{}, false, h.err
		}
		if h.ok && (best < 0 || h.row.RowKey < u.heads[best].row.RowKey) {
			best = i
		}
	}
	if best < 0 {
		return tablestore.Entity{}, false, nil
	}
	return u.heads[best].row, true, nil
}

// Intersection is the List of the rows that occur in all its lists. Where one list has a gap,
// the others skip it, and that list is asked first from then on. So the cost is proportional to
// the length of the shortest list. The rows are those of any of the lists.
type Intersection struct {
	Lists []List

	// Step, when set, is called before every seek with the place reached so
	// far. Its error ends the search: the way to stop an expensive one.
	Step func(from string) error
}

// Seek implements List.
func (x *Intersection) Seek(ctx context.Context, from string) (tablestore.Entity, bool, error) {
	for {
		var first tablestore.Entity
		agreed := true
		for i, list := range x.Lists {
			if x.Step != nil {
				if err := x.Step(from); err != nil {
					return tablestore.Entity{}, false, err
				}
			}
			row, ok, err := list.Seek(ctx, from)
			if err != nil || !ok {
				return tablestore.Entity{}, false, err
			}
			if i == 0 {
				first, from = row, row.RowKey
			} else if row.RowKey > from {
				from, agreed = row.RowKey, false
				x.Lists = slices.Insert(slices.Delete(x.Lists, i, i+1), 0, list)
				break
			}
		}
		if agreed {
			return first, len(x.Lists) > 0, nil
		}
	}
}
