// Package search finds videos by their words.
package search

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct {
	*httpapi.Server
	index *searchindex.Index
}

// New returns the feature.
func New(account *azstore.Account, core *httpapi.Server) web.Feature {
	f := feature(&server{core, searchindex.New(account)})
	f.Tables = searchindex.Tables
	f.Shows = map[string]any{"Searches": true}
	f.Problems = []problem.Answer{problem.When(searchindex.ErrQueryTooLong, problem.InvalidParameter, fmt.Sprintf("A search may have at most %d words.", searchindex.MaxWords))}
	return f
}

// SearchVideos implements GET /search.
func (s *server) SearchVideos(c *gin.Context, params api.SearchVideosParams) {
	query := searchindex.Query{
		Q: params.Q, Title: params.Title, Description: params.Description, Actor: params.Actor, Director: params.Director,
		Tag: params.Tag, Channel: params.Channel, Sort: searchindex.Sort(params.Sort), Facets: params.Facets,
	}
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.SearchResult, _ error) {
		found, err := s.index.Search(ctx, query, params.Limit, params.PageToken)
		if err != nil {
			return out, err
		}
		out = api.SearchResult{
			NextPageToken: api.Some(found.Next), EntitiesRead: found.EntitiesRead, Requests: found.Requests,
			DidYouMean: found.DidYouMean, Facets: found.Facets,
		}
		out.Items, err = s.Hydrate(ctx, found.Hits, false)
		return out, err
	})
}
