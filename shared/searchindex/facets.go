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
	var tags, channels, actors tally
	for _, row := range h.rows {
		tags.add(row.Value.Tags...)
		channels.add(row.Value.Channel)
		actors.add(row.Value.Actors...)
	}
	return &Facets{
		Tags: tags.top(), Channels: channels.top(), Actors: actors.top(),
		HitsCounted: len(h.rows), Complete: h.rest == "",
	}
}

// tally counts values.
type tally struct {
	at    map[string]int // place in found, by what makes values equal
	found []Facet
}

// add counts the values of one video, each once.
func (t *tally) add(values ...string) {
	if t.at == nil {
		t.at = map[string]int{}
	}
	counted := map[string]bool{}
	for _, value := range values {
		key := strings.Join(strings.Fields(normalize.Text(value)), " ")
		if key == "" || counted[key] {
			continue
		}
		counted[key] = true
		i, known := t.at[key]
		if !known {
			i = len(t.found)
			t.at[key] = i
			t.found = append(t.found, Facet{Value: strings.TrimSpace(value)})
		}
		t.found[i].Count++
	}
}

// top returns the most frequent values; of equals, that of the newest hit first.
func (t *tally) top() []Facet {
	slices.SortStableFunc(t.found, func(a, b Facet) int { return cmp.Compare(b.Count, a.Count) })
	return append([]Facet{}, t.found[:min(len(t.found), maxFacets)]...)
}
