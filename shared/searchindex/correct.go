package searchindex

import (
	"context"
	"strings"

	"github.com/blevesearch/segment"
	"golang.org/x/sync/errgroup"
)

// maxCorrections is how many words of a query are corrected.
const maxCorrections = 3

// correct returns the query with its doubtful words replaced by terms that differ
// from them by one typo, or nil when there are no such terms. The rest of the text
// stays as it was typed.
func (x *Index) correct(ctx context.Context, q Query, doubtful []clause) (*Query, error) {
	if len(doubtful) == 0 || len(doubtful) > maxCorrections {
		return nil, nil
	}
	better := make([]string, len(doubtful))
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range doubtful {
		group.Go(func() (err error) {
			better[i], err = x.correction(ctx, c.field, c.term)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	replace := map[field]map[string]string{}
	for i, c := range doubtful {
		if better[i] == "" {
			continue // no term is near; another form of the word may still match
		}
		if replace[c.field] == nil {
			replace[c.field] = map[string]string{}
		}
		replace[c.field][c.term] = better[i]
	}
	if len(replace) == 0 {
		return nil, nil
	}
	for _, in := range q.typedTexts() {
		*in.text = replaceWords(*in.text, replace[in.field])
	}
	return &q, nil
}

// replaceWords replaces words of a text. The keys of replace are folded words.
func replaceWords(text string, replace map[string]string) string {
	if len(replace) == 0 {
		return text
	}
	var out strings.Builder
	segments := segment.NewWordSegmenterDirect([]byte(strings.ReplaceAll(text, "_", " ")))
	for segments.Segment() {
		piece := segments.Text()
		if words := splitWords(piece); len(words) == 1 && replace[words[0].text] != "" {
			piece = replace[words[0].text]
		}
		out.WriteString(piece)
	}
	return out.String()
}
