package searchindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/rowstream"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// MaxRanked is how many hits the order Best ranks: the newest. Ranking needs no
// further reads, because a posting carries the texts that it is ranked by.
const MaxRanked = 500

// The score of a hit is the sum of two things. One is how the title has the words:
// it is the query (titleIsQuery), or it has the words in this order
// (titleHasPhrase). The other is, for each word, twice the worth of the best field
// that has it, and one more if it stands there as it was typed.
const (
	titleIsQuery   = 4000
	titleHasPhrase = 2000
)

var worth = map[field]int{title: 5, actor: 4, director: 4, tag: 3, channel: 2, description: 1}

// bestOf returns a page in the order Best. found begins at the place at.From.
func bestOf(q Query, c conditions, found hits, limit int, at cursor) (page []tablestore.Entity, next *cursor, err error) {
	window := found.first(MaxRanked)
	if at.Until == "" { // the first page decides which hits are ranked, for all later pages
		if len(window.rows) == 0 {
			if window.rest != "" {
				next = &cursor{From: window.rest}
			}
			return nil, next, nil
		}
		at.From = window.rows[0].RowKey
		at.Until = cmp.Or(window.rest, rowstream.KeyAfter(window.rows[len(window.rows)-1].RowKey))
	} else if n := slices.IndexFunc(found.rows, func(e tablestore.Entity) bool { return e.RowKey >= at.Until }); n >= 0 {
		window = hits{found.rows[:n], at.Until}
	} else if window.rest != "" {
		window.rest = at.Until
	}
	ranked, err := rank(q, c, window.rows)
	if err != nil {
		return nil, nil, err
	}
	page = ranked[min(at.Skip, len(ranked)):min(at.Skip+limit, len(ranked))]
	switch {
	case at.Skip+limit < len(ranked):
		next = &cursor{From: at.From, Until: at.Until, Skip: at.Skip + limit}
	case window.rest != "":
		next = &cursor{From: window.rest}
	}
	return page, next, nil
}

// rank sorts hits by score. Hits of equal score stay in their order, newest first.
func rank(q Query, c conditions, rows []tablestore.Entity) ([]tablestore.Entity, error) {
	type scored struct {
		row   tablestore.Entity
		score int
	}
	typed := strings.Join(texts(splitWords(q.Q+" "+q.Title)), " ")
	all := make([]scored, len(rows))
	for i, row := range rows {
		v, err := textsOf(row)
		if err != nil {
			return nil, err
		}
		all[i] = scored{row, score(typed, c, analyse(v), language(row.String(languageProperty)))}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	ranked := make([]tablestore.Entity, len(all))
	for i, s := range all {
		ranked[i] = s.row
	}
	return ranked, nil
}

// score ranks one hit by the texts of its posting, which has no description. The hit
// has every word of the query, so a word that is in none of the texts must be in the
// description.
func score(typed string, c conditions, texts map[field]fieldText, spoken language) int {
	sum := 0
	words := strings.TrimSuffix(strings.Join(texts[title].words, " "), " "+gap)
	switch {
	case typed == "":
	case words == typed:
		sum += titleIsQuery
	case strings.Contains(" "+words, " "+typed): // the last word may be a beginning
		sum += titleHasPhrase
	}
	for _, clause := range c.clauses {
		best := 2 * worth[description]
		for _, f := range listed {
			switch {
			case clause.field != anyField && clause.field != f:
			case slices.Contains(texts[f].terms, clause.term):
				best = max(best, 2*worth[f]+1)
			case clause.in(texts[f].terms, spoken):
				best = max(best, 2*worth[f])
			}
		}
		sum += best
	}
	return sum
}
