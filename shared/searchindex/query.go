package searchindex

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Query is what a person typed. All words must occur: those of Q in any text of the
// video, the others in the field that is named. The last word of each text may be
// the beginning of a word.
//
// A word also finds its other forms, "harbour" finds "harbours". Forms belong to a
// language, so they count only in texts of that language. Words in "double quotes"
// are a phrase: whole words, as they are written, in this order and next to each
// other.
type Query struct {
	Q           string `json:"q,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Actor       string `json:"actor,omitempty"`
	Director    string `json:"director,omitempty"`
	Tag         string `json:"tag,omitempty"`
	Channel     string `json:"channel,omitempty"`

	// No words, so not in JSON.
	Sort   Sort `json:"-"` // Newest, when empty
	Facets bool `json:"-"` // count what the hits have in common
}

// Sort is the order of hits.
type Sort string

// The orders. Best ranks the newest MaxRanked hits: those with the words in the
// title or among the people come first. The next MaxRanked follow, ranked among themselves.
const (
	Newest Sort = "newest"
	Best   Sort = "best"
)

// typedText is one text of a query and the field in which its words must occur.
type typedText struct {
	field field
	text  *string
}

func (q *Query) typedTexts() []typedText {
	return []typedText{
		{anyField, &q.Q}, {title, &q.Title}, {description, &q.Description},
		{actor, &q.Actor}, {director, &q.Director}, {tag, &q.Tag}, {channel, &q.Channel},
	}
}

// ErrQueryTooLong says that a query has more than MaxWords words.
var ErrQueryTooLong = errors.New("query has too many words")

// MaxWords is how many different words a query may have. Where characters are words,
// each may count, so it is as many as a title has characters.
const MaxWords = 200

// clause is one condition: a field has a term.
type clause struct {
	field  field
	term   string
	prefix bool // a term that begins with it counts too
	exact  bool // other forms of the word do not count
	phrase bool // it is no term but words, which the field has in this order
}

var quotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "＂", `"`)

// parse reads a query: its terms, then its phrases. A quotation mark that has no second
// one is ignored.
func parse(q Query) ([]clause, error) {
	var clauses, phrases []clause
	for _, in := range q.typedTexts() {
		pieces := strings.Split(quotes.Replace(*in.text), `"`)
		if n := len(pieces); n%2 == 0 { // an odd number of quotes: the last is not closed
			pieces = append(pieces[:n-2], pieces[n-2]+" "+pieces[n-1])
		}
		for i, piece := range pieces {
			words := splitWords(piece)
			quoted := i%2 == 1
			for _, c := range clausesOf(words, !quoted && i == len(pieces)-1) {
				c.field, c.exact = in.field, quoted
				if !slices.Contains(clauses, c) {
					clauses = append(clauses, c)
				}
			}
			if quoted && len(words) > 1 {
				phrases = append(phrases, clause{field: in.field, term: strings.Join(texts(words), " "), phrase: true})
			}
		}
	}
	if len(clauses) > MaxWords {
		return nil, fmt.Errorf("reading query: %w: %d, at most %d", ErrQueryTooLong, len(clauses), MaxWords)
	}
	// Long words are the rare ones, so that their lists are the short ones.
	slices.SortStableFunc(clauses, func(a, b clause) int { return cmp.Compare(len(b.term), len(a.term)) })
	return append(clauses, phrases...), nil
}
