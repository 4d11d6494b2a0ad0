package searchindex

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/video"
)

const (
	maxSwaps = 30 // tries to make a term's rows right while other workers change its list
	parallel = 8  // terms at the same time
)

// keepVocabulary makes the rows about terms right whose lists a run has changed.
func (x *Index) keepVocabulary(ctx context.Context, changed []indexrows.Key, unsure bool) error {
	return eachTerm(ctx, changed, func(ctx context.Context, term string) error { return x.keepTerm(ctx, term, unsure) })
}

// Load fills the index as indexrows.Keeper.Load does. Without other writers it need not look
// at the list of a term that it has just written.
func (x *Index) Load(ctx context.Context, videos []video.Video) error {
	written, err := x.Keeper.Load(ctx, videos)
	if err != nil {
		return err
	}
	return eachTerm(ctx, written, func(ctx context.Context, term string) error { return x.writeTerm(ctx, term, true) })
}

func eachTerm(ctx context.Context, changed []indexrows.Key, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	begun := map[string]bool{}
	for _, key := range changed {
		term, ok := termOf(key.PartitionKey)
		if !ok || begun[term] {
			continue
		}
		begun[term] = true
		group.Go(func() error { return do(ctx, term) })
	}
	return group.Wait()
}

// keepTerm makes the rows about a term right: there is one, and its variants, exactly
// when the term's list is not empty. unsure says that an earlier run may have died
// between the two.
//
// Runs may meet: one has found the list empty and removes the rows, another has just
// written a posting. So a run looks at the list again after each change that it made,
// until it is as when the rows were written. The run that writes last has seen the last
// change of the list, or a later run will.
func (x *Index) keepTerm(ctx context.Context, term string, unsure bool) error {
	pk, rk := termKeys(term)
	var written bool
	for try := range maxSwaps {
		used, err := x.occurs(ctx, clause{field: anyField, term: term})
		if err != nil {
			return err
		}
		switch {
		case try > 0 && used == written:
			return nil
		case try == 0 && used && !unsure: // nearly always the rows are there
			if _, err := x.terms.Get(ctx, pk, rk); !errors.Is(err, tablestore.ErrNotFound) {
				return err
			}
		}
		if err := x.writeTerm(ctx, term, used); err != nil {
			return err
		}
		written = used
	}
	return indexrows.ErrContended
}

func (x *Index) writeTerm(ctx context.Context, term string, used bool) (err error) {
	kind := tablestore.OpUpsert
	pk, rk := termKeys(term)
	if used {
		_, err = x.terms.Upsert(ctx, tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: map[string]any{"Term": term}})
	} else {
		kind, err = tablestore.OpDelete, x.terms.Delete(ctx, pk, rk, tablestore.AnyETag)
	}
	if err != nil {
		return err
	}
	var ops []tablestore.Op
	for _, row := range variantsOf(term) {
		ops = append(ops, tablestore.Op{Kind: kind, Entity: row})
	}
	return x.variants.SubmitAll(ctx, ops)
}

func termKeys(term string) (pk, rk string) {
	return tablestore.EscapeKey(cut(term, 2)), tablestore.EscapeKey(term)
}

type entry struct {
	term      string
	languages []language // only postings of texts in these; nil: all
}

// expand returns the terms that begin with prefix, at most limit, and whether these are
// all. It is a row range scan, or a partition range scan when the prefix is a single
// character.
func (x *Index) expand(ctx context.Context, prefix string, limit int) (entries []entry, all bool, err error) {
	pk, rk := termKeys(prefix)
	query := tablestore.Query{Class: tablestore.RowRange, Read: tablestore.Into(&entries, readTerm)}
	if cut(prefix, 1) == prefix {
		query.PartitionFrom, query.PartitionTo, query.Class = pk, tablestore.PrefixEnd(pk), tablestore.PartitionRange
	} else {
		query.PartitionKey, query.RowFrom, query.RowTo = pk, rk, tablestore.PrefixEnd(rk)
	}
	_, err = x.terms.First(ctx, query, limit+1)
	return entries[:min(limit, len(entries))], len(entries) <= limit, err
}

func readTerm(row tablestore.Entity) (entry, error) { return entry{term: row.String("Term")}, nil }
