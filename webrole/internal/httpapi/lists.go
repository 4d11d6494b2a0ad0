package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// ListVideos implements GET /videos.
func (s *Server) ListVideos(c *gin.Context, params api.ListVideosParams) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.VideoList, err error) {
		ids, next, err := s.idsListed(c, params)
		if err == nil {
			out.Items, err = s.hydrate(ctx, ids, params.Owner != nil)
		}
		out.NextPageToken = api.Some(next)
		return out, err
	})
}

// idsListed reads a page of the list that is asked for.
func (s *Server) idsListed(c *gin.Context, params api.ListVideosParams) (ids []video.ID, next string, err error) {
	ctx := c.Request.Context()
	limit, token := limitOf(params.Limit), api.Value(params.PageToken)
	byTitle := api.Value(params.Sort) == api.ListVideosParamsSortTitle
	owner := access.IdentityOf(ctx).Owner
	switch {
	case byTitle && params.Channel == nil:
		return nil, "", problem.New(problem.InvalidParameter, "Sorting by title needs a channel.")
	case params.Owner != nil && params.Channel != nil:
		return nil, "", problem.New(problem.InvalidParameter, "Your own videos are not listed by channel.")
	case params.Owner != nil && owner == "":
		return nil, "", access.Refused(c)
	case params.Owner != nil:
		return s.Videos.Owned(ctx, owner, limit, token)
	case params.Channel == nil:
		return s.Catalog.Recent(ctx, limit, token)
	}
	return s.Catalog.Channel(ctx, *params.Channel, catalog.Sort(api.Value(params.Sort)), limit, token)
}

// SearchVideos implements GET /search.
func (s *Server) SearchVideos(c *gin.Context, params api.SearchVideosParams) {
	query := searchindex.Query{
		Q: api.Value(params.Q), Title: api.Value(params.Title), Description: api.Value(params.Description),
		Actor: api.Value(params.Actor), Director: api.Value(params.Director), Tag: api.Value(params.Tag), Channel: api.Value(params.Channel),
		Facets: api.Value(params.Facets),
	}
	if api.Value(params.Sort) == api.SearchVideosParamsSortBest {
		query.Sort = searchindex.Best
	}
	handle(c, http.StatusOK, func(ctx context.Context) (api.SearchResult, error) {
		found, err := s.Search.Search(ctx, query, limitOf(params.Limit), api.Value(params.PageToken))
		if err != nil {
			return api.SearchResult{}, err
		}
		out := publicSearch(found)
		out.Items, err = s.hydrate(ctx, found.Hits, false)
		return out, err
	})
}

// publicSearch is all of a search but the videos.
func publicSearch(found searchindex.Result) api.SearchResult {
	out := api.SearchResult{NextPageToken: api.Some(found.Next), EntitiesRead: found.EntitiesRead, Requests: found.Requests}
	if m := found.DidYouMean; m != nil {
		out.DidYouMean = &api.SearchWords{
			Q: api.Some(m.Q), Title: api.Some(m.Title), Description: api.Some(m.Description), Actor: api.Some(m.Actor),
			Director: api.Some(m.Director), Tag: api.Some(m.Tag), Channel: api.Some(m.Channel),
		}
	}
	if counted := found.Facets; counted != nil {
		public := func(f searchindex.Facet) api.Facet { return api.Facet{Value: f.Value, Count: f.Count} }
		out.Facets = &api.Facets{
			Tags: api.Each(counted.Tags, public), Channels: api.Each(counted.Channels, public), Actors: api.Each(counted.Actors, public),
			HitsCounted: counted.HitsCounted, Complete: counted.Complete,
		}
	}
	return out
}

// hydrateAtOnce bounds the point reads of one list request.
const hydrateAtOnce = 8

// hydrate reads the videos of a page, one point read each, and leaves out those that are
// not shown.
func (s *Server) hydrate(ctx context.Context, ids []video.ID, own bool) ([]api.Video, error) {
	found := make([]api.Video, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hydrateAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			rec, err := s.shown(ctx, id, own)
			if rec != nil {
				progress, _ := rec.Progress()
				found[i] = s.publicVideo(*rec, progress)
			}
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(found, func(v api.Video) bool { return v.Id == "" }), err
}

// shown reads a video that an index names. The index follows the truth a moment later, so
// it is nil when it is gone, is being deleted or, unless the list is the requester's own,
// is not public any more.
func (s *Server) shown(ctx context.Context, id video.ID, own bool) (*videostore.Record, error) {
	rec, err := s.Videos.Get(ctx, id)
	switch {
	case errors.Is(err, videostore.ErrNotFound), errors.Is(err, tablestore.ErrUnreadable):
		return nil, nil
	case err != nil:
		return nil, err
	case access.MaySee(ctx, rec.Video) != nil, !own && rec.Video.Visibility != video.Public:
		return nil, nil
	}
	return &rec, nil
}
