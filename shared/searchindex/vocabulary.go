package searchindex

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

const (
	// exactUpTo is the longest list that is counted. Beyond, a term's number of
	// videos is kept by adding and subtracting, and may drift a little when a
	// worker dies. It orders lists by length, which forgives that.
	exactUpTo = 100

	maxSwaps = 30 // times that others may change a term's row first
	parallel = 8  // terms kept at the same time
)

// termChange is what happened to a term in one video.
type termChange struct {
	before, now map[field]bool // fields of the video that have the term
}

// keepVocabulary makes the rows of table terms tell the truth about the posting
// lists that a run has changed.
func (x *Index) keepVocabulary(ctx context.Context, c indexrows.Change) error {
	changes := map[string]*termChange{}
	note := func(keys []indexrows.Key, mark func(*termChange, field)) {
		for _, key := range keys {
			f, term, ok := parsePosting(key.PartitionKey)
			if !ok || f == allVideos {
				continue
			}
			if changes[term] == nil {
				changes[term] = &termChange{before: map[field]bool{}, now: map[field]bool{}}
			}
			mark(changes[term], f)
		}
	}
	note(c.Before, func(t *termChange, f field) { t.before[f] = true })
	note(c.Wanted, func(t *termChange, f field) { t.now[f] = true })
	note(c.Others, func(*termChange, field) {})

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for term, change := range changes {
		if !c.Unsure && maps.Equal(change.before, change.now) {
			continue
		}
		delta := 0
		switch {
		case c.Unsure: // it may have been counted already
		case len(change.before) == 0:
			delta = 1
		case len(change.now) == 0:
			delta = -1
		}
		group.Go(func() error { return x.keepTerm(ctx, term, change.now, delta, c.Unsure) })
	}
	return group.Wait()
}

// Load fills an empty index with many videos: see indexrows.Keeper.Load.
func (x *Index) Load(ctx context.Context, videos []video.Video) error {
	if err := x.keeper.Load(ctx, videos); err != nil {
		return fmt.Errorf("indexing words: %w", err)
	}
	terms := map[string]tablestore.Entity{}
	for _, v := range videos {
		if !Searchable(v) {
			continue
		}
		fields := map[string]map[field]bool{}
		for f, text := range analyse(v) {
			for _, term := range text.terms {
				if fields[term] == nil {
					fields[term] = map[field]bool{}
				}
				fields[term][f] = true
			}
		}
		for term, in := range fields {
			terms[term] = termRow(term, terms[term].Int("Videos")+1, in, terms[term])
		}
	}
	ops := map[*tablestore.Table]map[string][]tablestore.Op{x.terms: {}, x.variants: {}} // by partition
	for term, row := range terms {
		ops[x.terms][row.PartitionKey] = append(ops[x.terms][row.PartitionKey], tablestore.Op{Kind: tablestore.OpUpsert, Entity: row})
		for _, v := range variantsOf(term) {
			ops[x.variants][v.PartitionKey] = append(ops[x.variants][v.PartitionKey], tablestore.Op{Kind: tablestore.OpUpsert, Entity: v})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for table, partitions := range ops {
		for _, rows := range partitions {
			group.Go(func() error { return table.SubmitAll(ctx, rows) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("writing vocabulary: %w", err)
	}
	return nil
}

// termRow is a term's row, with the fields of the row before.
func termRow(term string, videos int, fields map[field]bool, before tablestore.Entity) tablestore.Entity {
	pk, rk := termKeys(term)
	row := tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: map[string]any{"Term": term, "Videos": videos}}
	for _, f := range listed {
		if fields[f] || before.Bool(propertyOf(f, "")) {
			row.Props[propertyOf(f, "")] = true
		}
	}
	return row
}

// keepTerm makes a term's row right: there is one exactly when the term's list
// is not empty. delta is the change of the list, as far as known. Unsure says
// that a run may have died between the term's row and its variants.
//
// Nobody loses a term: a run writes its posting first and then always writes
// the term's row. So whoever found the list empty and wants to delete the row
// either finds it changed, or is followed by a run that makes it again.
func (x *Index) keepTerm(ctx context.Context, term string, fields map[field]bool, delta int, unsure bool) error {
	pk, rk := termKeys(term)
	for range maxSwaps {
		row, err := x.terms.Get(ctx, pk, rk)
		exists := err == nil
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return fmt.Errorf("keeping term %q: %w", term, err)
		}
		videos := row.Int("Videos") + delta
		if delta < 0 || row.Int("Videos") <= exactUpTo {
			n, err := x.count(ctx, term)
			if err != nil {
				return err
			}
			if n <= exactUpTo {
				videos = n
			} else {
				videos = max(videos, n)
			}
		}
		switch {
		case videos == 0 && !exists:
			err = nil
		case videos == 0:
			err = x.terms.Delete(ctx, pk, rk, row.ETag)
		default:
			next := termRow(term, videos, fields, row)
			if exists {
				_, err = x.terms.Update(ctx, next, row.ETag)
			} else {
				_, err = x.terms.Insert(ctx, next)
			}
		}
		switch {
		case err == nil && (unsure || exists != (videos > 0)):
			return x.keepVariants(ctx, term, videos > 0)
		case err == nil:
			return nil
		case !errors.Is(err, tablestore.ErrChanged) && !errors.Is(err, tablestore.ErrExists) && !errors.Is(err, tablestore.ErrNotFound):
			return fmt.Errorf("keeping term %q: %w", term, err)
		}
		if err := shortPause(ctx); err != nil {
			return fmt.Errorf("keeping term %q: %w", term, err)
		}
	}
	return fmt.Errorf("keeping term %q: %w", term, indexrows.ErrContended)
}

// keepVariants writes the variants of a term that exists, or removes those of
// one that does not, and then looks whether that is still so: whoever changes a
// term's existence comes here afterwards, so the last one to write has seen the
// last change. Whoever dies here leaves a run that is repeated as unsure.
func (x *Index) keepVariants(ctx context.Context, term string, exists bool) error {
	rows := variantsOf(term)
	if len(rows) == 0 {
		return nil
	}
	pk, rk := termKeys(term)
	for range maxSwaps {
		ops := make([]tablestore.Op, len(rows))
		for i, row := range rows {
			ops[i] = tablestore.Op{Kind: tablestore.OpDelete, Entity: row}
			if exists {
				ops[i].Kind = tablestore.OpUpsert
			}
		}
		if err := x.variants.SubmitAll(ctx, ops); err != nil {
			return fmt.Errorf("keeping variants of %q: %w", term, err)
		}
		_, err := x.terms.Get(ctx, pk, rk)
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			return fmt.Errorf("keeping variants of %q: %w", term, err)
		}
		if exists == (err == nil) {
			return nil
		}
		exists = err == nil
		if err := shortPause(ctx); err != nil {
			return fmt.Errorf("keeping variants of %q: %w", term, err)
		}
	}
	return fmt.Errorf("keeping variants of %q: %w", term, indexrows.ErrContended)
}

// shortPause lets another worker finish.
func shortPause(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count counts a term's videos, up to one more than exactUpTo.
func (x *Index) count(ctx context.Context, term string) (int, error) {
	n := 0
	for _, pk := range partitions(anyField, term) {
		query := tablestore.Query{
			PartitionKey: pk, PageSize: exactUpTo + 1,
			Select: []string{"RowKey"}, Class: tablestore.RowRange,
		}
		for _, err := range x.postings.Query(ctx, query) {
			if err != nil {
				return 0, fmt.Errorf("counting term %q: %w", term, err)
			}
			if n++; n > exactUpTo {
				return n, nil
			}
		}
	}
	return n, nil
}

// termKeys are the keys of a term's row.
func termKeys(term string) (pk, rk string) {
	return tablestore.EscapeKey(cut(term, 2)), tablestore.EscapeKey(term)
}

// entry is what the vocabulary says about a term.
type entry struct {
	term      string
	videos    int
	languages []language // only postings of texts in these count; nil: all
}

// lookUp returns the term if it occurs in field f: a point query.
func (x *Index) lookUp(ctx context.Context, f field, term string) ([]entry, error) {
	pk, rk := termKeys(term)
	row, err := x.terms.Get(ctx, pk, rk)
	if errors.Is(err, tablestore.ErrNotFound) || err == nil && !occursIn(row, f) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up term %q: %w", term, err)
	}
	return []entry{{term: term, videos: row.Int("Videos")}}, nil
}

// occursIn reports whether a term may occur in field f. The vocabulary does not
// know about descriptions.
func occursIn(row tablestore.Entity, f field) bool {
	return f == anyField || f == description || row.Bool(propertyOf(f, ""))
}

// expand returns the terms that begin with prefix and occur in field f, up to
// limit, and whether these are all: a row range scan, or a scan of the
// partitions of one letter when the prefix is that letter.
func (x *Index) expand(ctx context.Context, f field, prefix string, limit int) (entries []entry, all bool, err error) {
	pk, rk := termKeys(prefix)
	query := tablestore.Query{PageSize: int32(limit + 1), Class: tablestore.RowRange}
	if cut(prefix, 1) == prefix {
		query.PartitionFrom, query.PartitionTo, query.Class = pk, tablestore.PrefixEnd(pk), tablestore.PartitionRange
	} else {
		query.PartitionKey, query.RowFrom, query.RowTo = pk, rk, tablestore.PrefixEnd(rk)
	}
	if f != anyField && f != description {
		query.Filter = propertyOf(f, "") + " eq true"
	}
	for row, err := range x.terms.Query(ctx, query) {
		if err != nil {
			return nil, false, fmt.Errorf("expanding prefix %q: %w", prefix, err)
		}
		if len(entries) == limit {
			return entries, false, nil
		}
		entries = append(entries, entry{term: row.String("Term"), videos: row.Int("Videos")})
	}
	return entries, true, nil
}
