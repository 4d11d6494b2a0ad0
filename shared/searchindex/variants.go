package searchindex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/segment"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/tablestore"
)

// The kinds of variant: first character of their RowKeys.
const (
	stemVariant = "="
	typoVariant = "~"
)

const (
	// The length of words, in letters, in which a typo is corrected.
	minCorrected, maxCorrected = 4, 32

	// maxVariants bounds the rows that are read for one stem or rest, and the terms
	// that are compared with the word.
	maxVariants = 48
)

// variantsOf lists the rows of a term in table variants. They depend on the term
// only, so they can be removed without a back-reference.
func variantsOf(term string) []tablestore.Entity {
	var rows []tablestore.Entity
	seen := map[string]bool{}
	add := func(kind, text string) {
		pk, rk := variantKeys(kind, text)
		if rk += tablestore.EscapeKey(term); !seen[pk+" "+rk] { // keys are normalised: two rests may become one
			seen[pk+" "+rk] = true
			rows = append(rows, tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: map[string]any{"Term": term}})
		}
	}
	for _, stem := range distinct(stemsOf(term)) {
		add(stemVariant, stem)
	}
	for _, rest := range rests(term) {
		add(typoVariant, rest)
	}
	return rows
}

// variantKeys are the PartitionKey of a variant and the beginning of its RowKey.
func variantKeys(kind, text string) (pk, rkPrefix string) {
	return tablestore.EscapeKey(cut(text, 2)), kind + tablestore.EscapeKey(text) + tablestore.Separator
}

// rests returns a word and each text that is left of it without one letter. If two
// words differ by one typo, they have such a text in common: that is how the word
// that was meant is found. Words that are not corrected have none: short words, numbers,
// and the neighbouring characters that are terms where the segmenter knows no words.
func rests(word string) []string {
	runes := []rune(word)
	if len(runes) < minCorrected || len(runes) > maxCorrected || !onlyLetters(word) {
		return nil
	}
	first := segment.NewWordSegmenterDirect([]byte(word))
	if first.Segment() && first.Type() == segment.None {
		return nil
	}
	all := []string{word}
	for i := range runes {
		all = append(all, string(runes[:i])+string(runes[i+1:]))
	}
	return slices.Compact(all)
}

// findVariants returns the terms that have one of the texts as a variant: one
// row range scan for each text, at most maxVariants rows of each.
func (x *Index) findVariants(ctx context.Context, kind string, texts []string) ([]string, error) {
	var mu sync.Mutex
	var terms []string
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, text := range texts {
		group.Go(func() error {
			pk, rk := variantKeys(kind, text)
			var found []string
			_, err := x.variants.First(ctx, tablestore.Query{
				PartitionKey: pk, RowFrom: rk, RowTo: tablestore.PrefixEnd(rk), Class: tablestore.RowRange,
				Read: tablestore.Into(&found, func(row tablestore.Entity) (string, error) { return row.String("Term"), nil }),
			}, maxVariants)
			if err != nil {
				return fmt.Errorf("finding variants of %q: %w", text, err)
			}
			mu.Lock()
			defer mu.Unlock()
			terms = append(terms, found[:min(len(found), maxVariants)]...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(terms)
	return slices.Compact(terms), nil
}

// forms returns the other forms of a term that occur in field f, each with the
// languages in which the two are forms of one word.
func (x *Index) forms(ctx context.Context, f field, term string) ([]entry, error) {
	stems := stemsOf(term)
	terms, err := x.findVariants(ctx, stemVariant, distinct(stems))
	if err != nil {
		return nil, err
	}
	var found []entry
	for _, t := range terms {
		if in, ok := related(stems, stemsOf(t)); ok && t != term {
			found = append(found, entry{term: t, languages: in})
		}
	}
	return x.known(ctx, f, found)
}

// known looks entries up in the vocabulary and returns those that occur in f.
func (x *Index) known(ctx context.Context, f field, entries []entry) ([]entry, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range entries {
		e := &entries[i]
		group.Go(func() error {
			found, err := x.lookUp(ctx, f, e.term)
			if len(found) > 0 {
				e.videos = found[0].videos
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.videos == 0 }), nil
}

// correction returns the term that differs from word by one typo, or "". Of several
// it takes the one that most videos have. It costs at most one row range scan for
// each letter of the word, whatever the size of the vocabulary.
func (x *Index) correction(ctx context.Context, f field, word string) (string, error) {
	terms, err := x.findVariants(ctx, typoVariant, rests(word))
	if err != nil {
		return "", err
	}
	var close []entry
	for _, t := range terms {
		if t != word && oneTypo(word, t) && len(close) < maxVariants {
			close = append(close, entry{term: t})
		}
	}
	close, err = x.known(ctx, f, close)
	best := entry{}
	for _, e := range close { // in alphabetical order
		if e.videos > best.videos {
			best = e
		}
	}
	return best.term, err
}

// oneTypo reports whether one letter of a word was left out, added or replaced in
// the other, or two neighbouring letters were swapped.
func oneTypo(a, b string) bool {
	for len(a) > 0 && len(b) > 0 { // the common beginning
		r, n := utf8.DecodeRuneInString(a)
		if s, _ := utf8.DecodeRuneInString(b); s != r {
			break
		}
		a, b = a[n:], b[n:]
	}
	x, y := []rune(a), []rune(b)
	switch len(x) - len(y) {
	case 1:
		return slices.Equal(x[1:], y)
	case -1:
		return slices.Equal(x, y[1:])
	case 0:
		return len(x) > 0 && slices.Equal(x[1:], y[1:]) ||
			len(x) > 1 && x[0] == y[1] && x[1] == y[0] && slices.Equal(x[2:], y[2:])
	}
	return false
}
