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
	// exactUpTo is the longest list that is counted. The number of videos of a
	// longer one is changed by one with each video, so it may be a little wrong
	// after a worker died. It only decides which list is read first.
	exactUpTo = 100

	maxSwaps = 30 // tries to change a row that other workers change too
	parallel = 8  // terms at the same time
)

// termChange says in which fields of one video a term was and is.
type termChange struct {
	before, now map[field]bool // fields of the video that have the term
}

// keepVocabulary updates the rows of table terms for the lists that a run has
// changed.
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
		case c.Unsure: // another run may have counted this video
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
	if err := x.Keeper.Load(ctx, videos); err != nil {
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

// keepTerm makes a term's row right: there is one exactly when the term's list is
// not empty. delta is the change in the number of videos, as far as it is known.
// unsure says that an earlier run may have died between the term's row and its
// variants.
//
// Two runs may meet: one has found the list empty and deletes the row, the other has
// just written a posting. The row is not lost, because a run writes its posting
// first and the term's row afterwards. Either the delete finds another ETag and
// starts over, or the row is written again after the delete.
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

// keepVariants writes the variants of a term that has a row, and removes those of a
// term that has none. Then it reads the term's row again and starts over if that has
// changed. Every run that creates or deletes a term's row comes here afterwards, so
// the run that writes variants last has seen the last change. If a worker dies here,
// its run is repeated with unsure set.
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

// shortPause gives another worker time to finish its change.
func shortPause(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count counts a term's videos and stops at exactUpTo + 1.
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

// entry is a term of the vocabulary, as a search uses it.
type entry struct {
	term      string
	videos    int
	languages []language // count only postings of texts in these; nil: all
}

// lookUp returns the term if it occurs in field f: a point query.
func (x *Index) lookUp(ctx context.Context, f field, term string) ([]entry, error) {
	pk, rk := termKeys(term)
	row, err := x.terms.Get(ctx, pk, rk)
	var found entry
	if err == nil && occursIn(row, f) {
		found, err = tablestore.Decode(ctx, x.terms, row, readEntry)
	}
	if err != nil && !errors.Is(err, tablestore.ErrNotFound) && !errors.Is(err, tablestore.ErrUnreadable) {
		return nil, fmt.Errorf("looking up term %q: %w", term, err)
	}
	if found.term == "" {
		return nil, nil
	}
	return []entry{found}, nil
}

func readEntry(row tablestore.Entity) (entry, error) {
	return entry{term: row.String("Term"), videos: row.Int("Videos")}, nil
}

// occursIn reports whether a term may occur in field f. The vocabulary does not say
// which terms occur in descriptions, so there every term may.
func occursIn(row tablestore.Entity, f field) bool {
	return f == anyField || f == description || row.Bool(propertyOf(f, ""))
}

// expand returns the terms that begin with prefix and occur in field f, at most
// limit, and whether these are all. It is a row range scan, or a partition range scan
// when the prefix is a single character.
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
	query.Read = tablestore.Into(&entries, readEntry)
	if _, err := x.terms.First(ctx, query, limit+1); err != nil {
		return nil, false, fmt.Errorf("expanding prefix %q: %w", prefix, err)
	}
	return entries[:min(limit, len(entries))], len(entries) <= limit, nil
}
