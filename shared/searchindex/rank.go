package searchindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/normalize"
)

// MaxRanked is how many hits the order Best ranks at a time. Ranking needs no
// further reads, because a posting carries the texts that it is ranked by.
const MaxRanked = 500

// The score of a hit is the sum of two things. One is how the title has the words:
// it is the query (titleIsQuery), or it has the words in this order
// (titleHasPhrase). The other is, for each word and phrase, twice the worth of the best field
// that has it, and one more if it stands there as it was typed.
const (
	titleIsQuery   = 4000
	titleHasPhrase = 2000
)

var worth = map[field]int{title: 5, actor: 4, director: 4, tag: 3, channel: 2, description: 1}

// bestOf returns a page in the order Best: by score, and of equal score the newest first.
// found is what follows the place at.From, up to at.Until.
func bestOf(q Query, plan []source, found hits, limit int, at cursor) (page []hit, next *cursor) {
	window := found.first(MaxRanked)
	if n := len(window.rows); at.Until == "" && n > 0 { // the first page of these decides which hits are ranked, for those that follow
		at.From, at.Until = window.rows[0].Key, cmp.Or(window.rest, rowstream.KeyAfter(window.rows[n-1].Key))
	}
	typed := strings.Join(texts(splitWords(q.Q+" "+q.Title)), " ")
	scores := map[engine.ID]int{}
	for _, row := range window.rows {
		scores[row.Value.ID] = score(typed, plan, row.Value.analyse(), row.Value.Language)
	}
	ranked := slices.SortedStableFunc(slices.Values(window.rows), func(a, b hit) int {
		return cmp.Compare(scores[b.Value.ID], scores[a.Value.ID])
	})
	page = ranked[min(at.Skip, len(ranked)):min(at.Skip+limit, len(ranked))]
	switch {
	case at.Skip+limit < len(ranked):
		next = &cursor{From: at.From, Until: at.Until, Skip: at.Skip + limit}
	case window.rest != "":
		next = &cursor{From: window.rest}
	}
	return page, next
}

// score ranks one hit by the texts of its posting, which has no description. The hit
// has every word of the query, so a word that is in none of the texts must be in the
// description.
func score(typed string, plan []source, texts map[field]fieldText, spoken language) int {
	sum := 0
	words := strings.TrimSuffix(texts[title].words, " "+gap)
	switch {
	case typed == "":
	case words == typed:
		sum += titleIsQuery
	case strings.Contains(" "+words, " "+typed): // the last word may be a beginning
		sum += titleHasPhrase
	}
	for _, s := range plan {
		best := 2 * worth[description]
		for _, f := range listed {
			switch {
			case s.field != anyField && s.field != f:
			case slices.Contains(texts[f].terms, s.term):
				best = max(best, 2*worth[f]+1)
			case s.in(texts[f], spoken):
				best = max(best, 2*worth[f])
			}
		}
		sum += best
	}
	return sum
}

const (
	// MaxCounted is how many hits facets count: the newest.
	MaxCounted = 1000

	maxFacets = 20 // values of each kind, the most frequent
)

// Facets are the most frequent tags, channels and actors of the hits.
type Facets struct {
	Tags        []Facet `json:"tags"`
	Channels    []Facet `json:"channels"`
	Actors      []Facet `json:"actors"`
	HitsCounted int     `json:"hitsCounted"` // at most MaxCounted, the newest
	Complete    bool    `json:"complete"`    // all hits were counted
}

// Facet is a value and the number of hits that have it. Values that differ in case
// and accents only are one; it is written as in the newest hit.
type Facet struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// countFacets counts the values that the postings carry. It makes no request.
func countFacets(h hits) *Facets {
	return &Facets{
		Tags:     mostFrequent(h.rows, func(d document) []string { return d.Tags }),
		Channels: mostFrequent(h.rows, func(d document) []string { return []string{d.Channel} }),
		Actors:   mostFrequent(h.rows, func(d document) []string { return d.Actors }),

		HitsCounted: len(h.rows), Complete: h.rest == "",
	}
}

// mostFrequent counts values, each once in a video. Of equals, that of the newest hit
// comes first.
func mostFrequent(rows []hit, of func(document) []string) []Facet {
	at, found := map[string]int{}, []Facet{} // at: place in found, by what makes values equal
	for _, row := range rows {
		counted := map[string]bool{"": true}
		for _, value := range of(row.Value) {
			key := strings.Join(strings.Fields(normalize.Text(value)), " ")
			if counted[key] {
				continue
			}
			counted[key] = true
			if _, known := at[key]; !known {
				at[key] = len(found)
				found = append(found, Facet{Value: strings.TrimSpace(value)})
			}
			found[at[key]].Count++
		}
	}
	slices.SortStableFunc(found, func(a, b Facet) int { return cmp.Compare(b.Count, a.Count) })
	return found[:min(len(found), maxFacets)]
}
