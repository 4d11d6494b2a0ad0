package searchindex

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/blevesearch/segment"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
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
	// whose videos are counted, up to countedUpTo of each.
	maxVariants = 48
	countedUpTo = 50
)

// variantsOf lists the rows of a term in table variants. They depend on the term
// only, so they can be removed without a back-reference.
func variantsOf(term string) []tablestore.Entity {
	var rows []tablestore.Entity
	add := func(kind, text string) {
		pk, rk := variantKeys(kind, text)
		rows = append(rows, tablestore.Entity{PartitionKey: pk, RowKey: rk + tablestore.EscapeKey(term), Props: map[string]any{"Term": term}})
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

// findVariants returns the terms that have one of the texts as a variant, in alphabetical
// order: one row range scan for each text, at most maxVariants rows of each.
func (x *Index) findVariants(ctx context.Context, kind string, texts []string) ([]string, error) {
	found := make([][]string, len(texts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, text := range texts {
		group.Go(func() error {
			pk, rk := variantKeys(kind, text)
			_, err := x.variants.First(ctx, tablestore.Query{
				PartitionKey: pk, RowFrom: rk, RowTo: tablestore.PrefixEnd(rk), Class: tablestore.RowRange,
				Read: tablestore.Into(&found[i], func(row tablestore.Entity) (string, error) { return row.String("Term"), nil }),
			}, maxVariants)
			return err
		})
	}
	err := group.Wait()
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(found...)))), err
}

// forms returns the other forms of a term, each with the languages in which the two are
// forms of one word.
func (x *Index) forms(ctx context.Context, term string) ([]entry, error) {
	stems := stemsOf(term)
	terms, err := x.findVariants(ctx, stemVariant, distinct(stems))
	var found []entry
	for _, t := range terms {
		if in, ok := related(stems, stemsOf(t)); ok && t != term {
			found = append(found, entry{term: t, languages: in})
		}
	}
	return found, err
}

// correction returns the term that differs from word by one typo, or "". Of several it
// takes the one that most videos have in the field, as far as they are counted. It costs
// at most one row range scan for each letter of the word and one for each such term,
// whatever the size of the vocabulary.
func (x *Index) correction(ctx context.Context, f field, word string) (best string, _ error) {
	terms, err := x.findVariants(ctx, typoVariant, rests(word))
	if err != nil {
		return "", err
	}
	terms = slices.DeleteFunc(terms, func(t string) bool { return t == word || !oneTypo(word, t) })
	most := 0
	for _, t := range terms[:min(len(terms), maxVariants)] { // in alphabetical order
		n := 0
		for _, err := range rowstream.All(ctx, x.list(f, countedUpTo, entry{term: t}), "") {
			if err != nil {
				return "", err
			}
			if n++; n > most {
				most, best = n, t
			}
			if n == countedUpTo {
				break
			}
		}
	}
	return best, nil
}

// oneTypo reports whether one letter of a word was left out, added or replaced in
// the other, or two neighbouring letters were swapped.
func oneTypo(a, b string) bool {
	x, y := []rune(a), []rune(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) == 2 && len(y) == 2 {
		return x[0] == y[1] && x[1] == y[0]
	}
	return len(x) <= 1 && len(y) <= 1 && len(x)+len(y) > 0
}

// correct returns the query with the words that no video has as they were typed replaced
// by terms that differ from them by one typo, or nil when there are no such terms. The
// rest of the text stays as it was typed. Of a long query the maxLists longest words count.
func (x *Index) correct(ctx context.Context, q Query) (*Query, error) {
	c, err := parse(q)
	if err != nil {
		return nil, err
	}
	c = slices.DeleteFunc(c, func(c clause) bool { return c.phrase })
	replace := map[string]string{} // by field and word
	for _, clause := range c[:min(len(c), maxLists)] {
		occurs, err := x.occurs(ctx, clause)
		better := ""
		if err == nil && !occurs {
			better, err = x.correction(ctx, clause.field, clause.term)
		}
		if err != nil {
			return nil, err
		}
		if better != "" { // else another form of the word may still match
			replace[string(clause.field)+":"+clause.term] = better
		}
	}
	if len(replace) == 0 {
		return nil, nil
	}
	for _, in := range q.typedTexts() {
		*in.text = replaceWords(*in.text, func(word string) string { return replace[string(in.field)+":"+word] })
	}
	return &q, nil
}

func (x *Index) occurs(ctx context.Context, c clause) (bool, error) {
	c.exact = true
	entries, all, err := x.resolve(ctx, c)
	if err != nil || !all {
		return true, err
	}
	first, err := x.list(c.field, 1, entries...).Seek(ctx, "")
	return first != nil, err
}

// replaceWords replaces the words of a text for which better, given the folded word, has
// another one.
func replaceWords(text string, better func(word string) string) string {
	var out strings.Builder
	segments := segment.NewWordSegmenterDirect([]byte(strings.ReplaceAll(text, "_", " ")))
	for segments.Segment() {
		piece := segments.Text()
		if words := splitWords(piece); len(words) == 1 {
			piece = cmp.Or(better(words[0].text), piece)
		}
		out.WriteString(piece)
	}
	return out.String()
}
