// Package find joins the catalogue and the search index to what the API's lists
// need: ids in order, a token, and the cost.
package find

import (
	"context"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/video"
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

// Search lists the videos that match every word, newest first.
func (f Finder) Search(ctx context.Context, w httpapi.Words, limit int, token string) (httpapi.Page, error) {
	found, err := f.index.Search(ctx, searchindex.Query{
		Q: w.Any, Title: w.Title, Actor: w.Actor, Director: w.Director, Tag: w.Tag, Channel: w.Channel,
	}, limit, token)
	p := page(found.Hits, found.Next)
	p.EntitiesRead, p.Requests = found.EntitiesRead, found.Requests
	return p, err
}

func page(found []catalog.Summary, next string) httpapi.Page {
	p := httpapi.Page{Next: next, IDs: make([]video.ID, len(found))}
	for i, s := range found {
		p.IDs[i] = s.ID
	}
	return p
}
