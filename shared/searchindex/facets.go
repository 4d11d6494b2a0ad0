package searchindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cutroom/cutroom/shared/normalize"
)

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
