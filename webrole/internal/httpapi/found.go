package httpapi

import (
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// idPage is a page of what an index knows: ids, in order. The videos themselves
// are read from the truth, one point read each.
type idPage struct {
	ids  []video.ID
	next string // opaque; empty on the last page
	own  bool   // the requester's own list: also what is not public

	// Of searches only.
	entitiesRead, requests int
	didYouMean             *api.SearchWords
	facets                 *api.Facets
}

func newPage(hits []catalog.Summary, next string) idPage {
	p := idPage{next: next, ids: make([]video.ID, len(hits))}
	for i, hit := range hits {
		p.ids[i] = hit.ID
	}
	return p
}

func searchPage(found searchindex.Result) idPage {
	p := newPage(found.Hits, found.Next)
	p.entitiesRead, p.requests = found.EntitiesRead, found.Requests
	if m := found.DidYouMean; m != nil {
		p.didYouMean = &api.SearchWords{
			Q: some(m.Q), Title: some(m.Title), Description: some(m.Description), Actor: some(m.Actor),
			Director: some(m.Director), Tag: some(m.Tag), Channel: some(m.Channel),
		}
	}
	if counted := found.Facets; counted != nil {
		p.facets = &api.Facets{
			Tags: facets(counted.Tags), Channels: facets(counted.Channels), Actors: facets(counted.Actors),
			HitsCounted: counted.HitsCounted, Complete: counted.Complete,
		}
	}
	return p
}

func facets(counted []searchindex.Facet) []api.Facet {
	list := make([]api.Facet, len(counted))
	for i, f := range counted {
		list[i] = api.Facet{Value: f.Value, Count: f.Count}
	}
	return list
}

// some leaves a member out when it is empty.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
