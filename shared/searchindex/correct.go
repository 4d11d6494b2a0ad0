package searchindex

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/blevesearch/segment"
)

// maxCorrections is how many words of a query are corrected.
const maxCorrections = 3

// correct returns the query with the words that no video has as they were typed replaced
// by terms that differ from them by one typo, or nil when there are no such terms. The
// rest of the text stays as it was typed. Of a long query the maxLists longest words count.
func (x *Index) correct(ctx context.Context, q Query) (*Query, error) {
	c, err := parse(q)
	if err != nil {
		return nil, err
	}
	c = slices.DeleteFunc(c, func(c clause) bool { return c.phrase })
	doubtful, replace := 0, map[string]string{} // by field and word
	for _, clause := range c[:min(len(c), maxLists)] {
		occurs, err := x.occurs(ctx, clause)
		if err != nil {
			return nil, err
		}
		if occurs {
			continue
		}
		if doubtful++; doubtful > maxCorrections {
			return nil, nil
		}
		better, err := x.correction(ctx, clause.field, clause.term)
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

// occurs reports whether a video has a word as it was typed.
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
