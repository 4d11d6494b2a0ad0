// Package find joins the catalogue and the search index to what the API's lists
// need: ids in order, a token, and the cost.
package find

import (
	"context"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
)

// Finder implements httpapi.Finder. It is safe for concurrent use.
type Finder struct {
	catalog *catalog.Catalog
	index   *searchindex.Index
}

var _ httpapi.Finder = Finder{}

// New returns the finder of an account.
func New(c *catalog.Catalog, i *searchindex.Index) Finder { return Finder{catalog: c, index: i} }

// Recent lists public videos of all channels, newest first.
func (f Finder) Recent(ctx context.Context, limit int, token string) (httpapi.Page, error) {
	found, next, err := f.catalog.Recent(ctx, limit, token)
	return page(found, next), err
}

// Channel lists one channel's public videos.
func (f Finder) Channel(ctx context.Context, channel string, byTitle bool, limit int, token string) (httpapi.Page, error) {
	sort := catalog.Newest
	if byTitle {
		sort = catalog.ByTitle
	}
	found, next, err := f.catalog.Channel(ctx, channel, sort, limit, token)
	return page(found, next), err
}

// Search lists the videos that match every word.
func (f Finder) Search(ctx context.Context, s httpapi.Search, limit int, token string) (httpapi.Page, error) {
	q := searchindex.Query{
		Q: s.Any, Title: s.Title, Description: s.Description, Actor: s.Actor,
		Director: s.Director, Tag: s.Tag, Channel: s.Channel, Facets: s.Facets,
	}
	if s.Best {
		q.Sort = searchindex.Best
	}
	found, err := f.index.Search(ctx, q, limit, token)
	p := page(found.Hits, found.Next)
	p.EntitiesRead, p.Requests = found.EntitiesRead, found.Requests
	if m := found.DidYouMean; m != nil {
		p.DidYouMean = &api.SearchWords{
			Q: some(m.Q), Title: some(m.Title), Description: some(m.Description), Actor: some(m.Actor),
			Director: some(m.Director), Tag: some(m.Tag), Channel: some(m.Channel),
		}
	}
	if counted := found.Facets; counted != nil {
		p.Facets = &api.Facets{
			Tags: facets(counted.Tags), Channels: facets(counted.Channels), Actors: facets(counted.Actors),
			HitsCounted: counted.HitsCounted, Complete: counted.Complete,
		}
	}
	return p, err
}

func page(found []catalog.Summary, next string) httpapi.Page {
	p := httpapi.Page{Next: next, IDs: make([]video.ID, len(found))}
	for i, s := range found {
		p.IDs[i] = s.ID
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
