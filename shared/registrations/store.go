package registrations

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/indexrows"
)

// Table is the base name of the table.
const Table = "registrations"

// Errors that callers act on; *Invalid is another.
var (
	ErrNotFound = errors.New("no runner has this bib")
	ErrChanged  = errors.New("the registration was changed in the meantime")
)

// Store reads and writes the registrations. It is safe for concurrent use.
type Store struct {
	*indexrows.Keeper // of the rows that tie videos to their events

	rows *tablestore.Table
}

// New returns the registrations of an account, whose table exists.
func New(a *azstore.Account) *Store {
	return &Store{
		rows:   tablestore.New(a, Table),
		Keeper: indexrows.New(a, Table, referenceRow, rowsOf, Table),
	}
}

// Get reads one runner: a point query (T5). ErrNotFound.
func (s *Store) Get(ctx context.Context, event Event, bib int) (Registration, error) {
	if bib < 1 || bib > MaxBib {
		return Registration{}, ErrNotFound
	}
	row, err := s.rows.Get(ctx, string(event), guardKey(bib))
	if errors.Is(err, tablestore.ErrNotFound) {
		err = ErrNotFound
	}
	if err != nil {
		return Registration{}, fmt.Errorf("bib %d: %w", bib, err)
	}
	return tablestore.Decode(ctx, s.rows, row, readRegistration)
}

// Query selects runners: one bib, or a range of ages, or all.
type Query struct {
	Bib            *int // this bib only
	AgeFrom, AgeTo *int // both included; nil is open. Both nil: all runners, by bib
}

// List returns a page of runners in the order of the keys that serve the query:
// one row range (T5, T7). next is the token of the page after it, "" at the end;
// concurrent inserts and deletes never duplicate or skip rows.
// limit is from 1 to 1000. tablestore.ErrToken.
func (s *Store) List(ctx context.Context, event Event, q Query, limit int, token string) (page []Registration, next string, err error) {
	from, to := q.bounds()
	if from >= to {
		return nil, "", nil
	}
	_, next, err = s.rows.Page(ctx, tablestore.Query{
		PartitionKey: string(event), RowFrom: from, RowTo: to,
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&page, readRegistration),
	}, token)
	return page, next, err
}

func (q Query) bounds() (from, to string) {
	switch {
	case q.Bib != nil:
		return bibRange(*q.Bib), tablestore.PrefixEnd(bibRange(*q.Bib))
	case q.AgeFrom != nil || q.AgeTo != nil:
		least, most := *cmp.Or(q.AgeFrom, new(0)), *cmp.Or(q.AgeTo, new(MaxAge))
		return agePrefix + pad(least, ageDigits), agePrefix + pad(most+1, ageDigits)
	}
	return bibPrefix, tablestore.PrefixEnd(bibPrefix)
}

// Edit is a change of a registration; nil members stay as they are.
type Edit struct {
	Name       *string
	Sex        *Sex
	Age        *int
	FinishedAt *time.Time
}

// Edit changes a registration in the version ifMatch, or in any with "". Where a
// key changes, the old row goes and the new one comes in the same transaction as
// the guard, so that no reader ever sees the runner twice, or not at all, or with
// two ages (T2, T7). ErrNotFound, ErrChanged, *Invalid.
func (s *Store) Edit(ctx context.Context, event Event, bib int, ifMatch string, edit Edit) (Registration, error) {
	return s.change(ctx, event, bib, ifMatch, func(now Registration) ([]tablestore.Op, Registration, error) {
		next := now
		next.Name = *cmp.Or(edit.Name, &now.Name)
		next.Sex = *cmp.Or(edit.Sex, &now.Sex)
		next.Age = *cmp.Or(edit.Age, &now.Age)
		next.FinishedAt = *cmp.Or(edit.FinishedAt, &now.FinishedAt)
		next, err := next.normalised()
		next.ETag = rand.Text()
		if err != nil {
			return nil, next, err
		}
		return next.replacing(now), next, nil
	})
}

// replacing is the operations that put r in the place of old, whose guard was
// read: the guard first. Rows whose keys stay may be gone: see change.
func (r Registration) replacing(old Registration) []tablestore.Op {
	ops := r.each(tablestore.OpUpsert)
	ops[0].Kind, ops[0].IfMatch = tablestore.OpReplace, old.guard
	for _, key := range old.keys() {
		if !slices.Contains(r.keys(), key) {
			ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: old.entity(key)})
		}
	}
	return ops
}

// each is one operation on every row of r: the guard first.
func (r Registration) each(kind tablestore.OpKind) []tablestore.Op {
	var ops []tablestore.Op
	for _, key := range r.keys() {
		ops = append(ops, tablestore.Op{Kind: kind, Entity: r.entity(key)})
	}
	return ops
}

// Delete takes a runner off the list, in the version ifMatch, or in any with "";
// the bib is free again. ErrNotFound, ErrChanged.
func (s *Store) Delete(ctx context.Context, event Event, bib int, ifMatch string) error {
	_, err := s.change(ctx, event, bib, ifMatch, func(now Registration) ([]tablestore.Op, Registration, error) {
		ops := now.each(tablestore.OpDelete)
		ops[0].IfMatch = now.guard
		return ops, now, nil
	})
	return err
}

// changeTries is how often a change of "any version" is made again because
// another writer was faster.
const changeTries = 10

// change reads the guard and runs the transaction that plan makes of it. A lost
// reply is recognised by tablestore.Submit (Q13).
func (s *Store) change(ctx context.Context, event Event, bib int, ifMatch string,
	plan func(now Registration) ([]tablestore.Op, Registration, error),
) (Registration, error) {
	for try := 0; ; try++ {
		now, err := s.Get(ctx, event, bib)
		if err != nil {
			return now, err
		}
		if ifMatch != "" && now.ETag != ifMatch {
			return now, fmt.Errorf("bib %d: %w", bib, ErrChanged)
		}
		ops, next, err := plan(now)
		if err != nil {
			return now, fmt.Errorf("bib %d: %w", bib, err)
		}
		if _, err = s.rows.Submit(ctx, ops); !tablestore.Overtaken(err) {
			return next, err
		}
		if try == changeTries {
			return now, fmt.Errorf("bib %d: %w", bib, ErrChanged)
		}
		// If the guard is as it was read, a row is missing: an operator deletes one that cannot
		// be read. It is written again.
		if _, err := s.rows.Submit(ctx, now.replacing(now)); err != nil && !tablestore.Overtaken(err) {
			return now, fmt.Errorf("bib %d: %w", bib, err)
		}
		// Read again: with an ETag, that tells a change from a removal.
	}
}
