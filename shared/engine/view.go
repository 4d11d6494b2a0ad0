package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// View is the snapshot of a subject, read with one query.
type View[V, P any] struct {
	Record[V]
	Plans  map[int]P                      // by generation
	Runs   []Run                          // rows that exist, in key order
	Rows   map[string][]tablestore.Entity // of the product's own kinds, by kind
	Unsent bool                           // the outbox is not empty

	// LeftOut are runs whose rows cannot be read, of a view by ReadSnapshot.
	LeftOut map[Key]bool

	product *Product[V, P]
	cursor  map[int]fanOutCursor // by generation
}

// View reads a subject with one row-range query (T5). Its cost grows with the number of its
// runs: a subject with 400 parts has about 800 rows.
func (s *Store[V, P]) View(ctx context.Context, id ID) (View[V, P], error) {
	return s.view(ctx, id, MetaKey, "", false)
}

// ReadSnapshot is View for people: rows that cannot be read are left out. Nothing may be
// decided by it, because the runs left out may be done, and may name blobs.
func (s *Store[V, P]) ReadSnapshot(ctx context.Context, id ID) (View[V, P], error) {
	return s.view(ctx, id, MetaKey, "", true)
}

// ViewWithRequests is View with the runs on request: all, or the open ones.
// Only upkeep should call it: a popular subject has many.
func (s *Store[V, P]) ViewWithRequests(ctx context.Context, id ID, all bool) (View[V, P], error) {
	filter := "RowKey ge " + tablestore.Quote(MetaKey) + " or " + IsOpen
	if all {
		filter = ""
	}
	return s.view(ctx, id, "", filter, false)
}

func (s *Store[V, P]) view(ctx context.Context, id ID, from, filter string, leaveOut bool) (View[V, P], error) {
	view := View[V, P]{
		Plans: map[int]P{}, Rows: map[string][]tablestore.Entity{}, LeftOut: map[Key]bool{},
		product: &s.Product, cursor: map[int]fanOutCursor{},
	}
	var unreadable error
	rows := s.subjects.Query(ctx, tablestore.Query{
		PartitionKey: string(id), RowFrom: from, RowTo: tablestore.PrefixEnd("STEP:"), Filter: filter, Class: tablestore.RowRange,
		Read: func(row tablestore.Entity) error {
			err := view.add(row)
			if err == nil {
				return nil
			}
			if !leaveOut || row.RowKey == MetaKey {
				unreadable = fmt.Errorf("decode row %s of %s: %w: %w", row.RowKey, id, tablestore.ErrUnreadable, err)
			}
			if key, bad := ParseRowKey(id, row.RowKey); bad == nil {
				view.LeftOut[key] = true
			}
			return err
		},
	})
	for _, err := range rows {
		if err != nil {
			return View[V, P]{}, err
		}
	}
	switch {
	case view.ETag == "":
		return View[V, P]{}, ErrNotFound
	case unreadable != nil:
		return View[V, P]{}, unreadable
	}
	return view, nil
}

// add takes what a row says, or nothing of it with an error.
func (v *View[V, P]) add(row tablestore.Entity) (err error) {
	kind, rest, _ := strings.Cut(row.RowKey, ":")
	switch {
	case kind == MetaKey:
		v.Record, err = readMeta[V](row)
	case kind == "NEXT":
		var generation int
		if generation, err = strconv.Atoi(rest); err == nil {
			v.cursor[generation], err = readFanOutCursor(row)
		}
	case kind == "OUT":
		v.Unsent = true
	case kind == "PLAN":
		var plan P
		if plan, err = readPlan[P](row); err == nil {
			v.Plans[planOf(plan).Generation] = plan
		}
	case v.product.RowKinds[kind] != nil:
		if err = v.product.RowKinds[kind](row); err == nil {
			v.Rows[kind] = append(v.Rows[kind], row)
		}
	default:
		var run Run
		if run, err = readRun(row); err == nil {
			v.Runs = append(v.Runs, run)
		} else if errors.Is(err, ErrNotAKey) {
			err = nil
		}
	}
	return err
}

// RunOf returns a run of the view, or false when it has no row.
func (v View[V, P]) RunOf(key Key) (Run, bool) {
	for _, r := range v.Runs {
		if r.Key == key {
			return r, true
		}
	}
	return Run{}, false
}

// Find is RunOf by generation, name and index.
func (v View[V, P]) Find(generation int, step string, index int) (Run, bool) {
	return v.RunOf(Key{ID: v.Meta().ID, Generation: generation, Step: step, Index: index})
}

// OutputsOf returns what the runs of a step have committed in a generation, by index: nil for a
// run that is not done.
func OutputsOf[T, V, P any](v View[V, P], generation int, step string) (outputs []*T, err error) {
	outputs = make([]*T, planOf(v.Plans[generation]).Items(step))
	for _, r := range v.Runs {
		if r.Key.Generation != generation || r.Key.Step != step || r.State != RunDone || r.Key.Index >= len(outputs) {
			continue
		}
		if outputs[r.Key.Index], err = OutputOf[T](r); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

// Keeps reports whether a generation is still needed: it serves, it is the newest, or an
// open step on request reads it.
func (v View[V, P]) Keeps(generation int) bool {
	m := v.Meta()
	return generation == m.Serving || generation == m.Generation ||
		slices.ContainsFunc(v.OpenOptional(), func(o OutboxMessage) bool { return o.Generation == generation })
}

// Look returns the subject of a run, and its plan, without a claim: for what keeps no worker
// from the run itself. ErrDone when it is committed, ErrGone when its subject no longer wants it.
func (s *Store[V, P]) Look(ctx context.Context, key Key) (rec Record[V], plan P, _ error) {
	c, err := s.unclaimed(ctx, key)
	if err == nil && key.Index >= planOf(c.Plan).Items(key.Step) {
		err = ErrGone
	}
	if err != nil {
		return rec, plan, err
	}
	return c.Record, c.Plan, nil
}

// AddRow writes a row of one of the product's kinds, in the place of an earlier one. META is
// not written, because users hold its ETag; a row that meets a purge is found by upkeep, for
// a subject has a mark while it is processed. Safe to repeat.
func (s *Store[V, P]) AddRow(ctx context.Context, id ID, rowKey string, props any) error {
	_, err := s.subjects.Upsert(ctx, tablestore.Entity{PartitionKey: string(id), RowKey: rowKey, Props: tablestore.Props(props)})
	return err
}

// HasRow reports whether a subject has a row: a point read.
func (s *Store[V, P]) HasRow(ctx context.Context, id ID, rowKey string) (bool, error) {
	_, err := s.subjects.Get(ctx, string(id), rowKey)
	return err == nil, tablestore.IgnoreNotFound(err)
}
