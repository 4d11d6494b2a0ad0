package searchindex

import (
	"context"
	"strings"

	"github.com/blevesearch/segment"
	"golang.org/x/sync/errgroup"
)

// maxCorrections is how many words of a query are corrected.
const maxCorrections = 3

// correct returns a query in which doubtful words are replaced by words that are
// one typo off, or nil when there are none. The rest stays as it was typed.
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
			continue // it may have matched by another form
		}
		if replace[c.field] == nil {
			replace[c.field] = map[string]string{}
		}
		replace[c.field][c.term] = better[i]
	}
	if len(replace) == 0 {
		return nil, nil
	}
	for _, part := range q.parts() {
		*part.text = replaceWords(*part.text, replace[part.field])
	}
	return &q, nil
}

// replaceWords replaces the words of a text that are named, folded, in replace.
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
