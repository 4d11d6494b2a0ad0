package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

const defaultLimit = 20

// ListVideos implements GET /videos.
func (s *Server) ListVideos(c *gin.Context, params api.ListVideosParams) {
	order := catalog.Newest
	if value(params.Sort) == api.ListVideosParamsSortTitle {
		order = catalog.ByTitle
	}
	if order == catalog.ByTitle && params.Channel == nil {
		abort(c, problem.New(http.StatusBadRequest, problem.InvalidParameter, "Sorting by title needs a channel."))
		return
	}
	who := access.From(c.Request.Context())
	if params.Owner != nil {
		switch {
		case params.Channel != nil:
			abort(c, problem.New(http.StatusBadRequest, problem.InvalidParameter, "Your own videos are not listed by channel."))
			return
		case who.Owner == "":
			abort(c, access.Refused(c.Writer, c.Request.Context()))
			return
		}
	}
	s.page(c, params.PageToken, params.Limit, func(ctx context.Context, limit int, token string) (idPage, error) {
		if params.Owner != nil {
			ids, next, err := s.videos.Owned(ctx, who.Owner, limit, token)
			return idPage{ids: ids, next: next, own: true}, err
		}
		if params.Channel == nil {
			hits, next, err := s.catalog.Recent(ctx, limit, token)
			return newPage(hits, next), err
		}
		hits, next, err := s.catalog.Channel(ctx, *params.Channel, order, limit, token)
		return newPage(hits, next), err
	}, func(_ idPage, items []api.Video, next *string) any {
		return api.VideoList{Items: items, NextPageToken: next}
	})
}

// SearchVideos implements GET /search.
func (s *Server) SearchVideos(c *gin.Context, params api.SearchVideosParams) {
	query := searchindex.Query{
		Q: value(params.Q), Title: value(params.Title), Description: value(params.Description),
		Actor: value(params.Actor), Director: value(params.Director), Tag: value(params.Tag), Channel: value(params.Channel),
		Facets: value(params.Facets),
	}
	if value(params.Sort) == api.SearchVideosParamsSortBest {
		query.Sort = searchindex.Best
	}
	s.page(c, params.PageToken, params.Limit, func(ctx context.Context, limit int, token string) (idPage, error) {
		found, err := s.search.Search(ctx, query, limit, token)
		return searchPage(found), err
	}, func(p idPage, items []api.Video, next *string) any {
		return api.SearchResult{
			Items: items, NextPageToken: next, EntitiesRead: p.entitiesRead, Requests: p.requests,
			DidYouMean: p.didYouMean, Facets: p.facets,
		}
	})
}

// value is what a parameter says, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (s *Server) page(c *gin.Context, token *string, limit *int,
	read func(ctx context.Context, limit int, token string) (idPage, error),
	answer func(idPage, []api.Video, *string) any,
) {
	page, err := read(c.Request.Context(), cmp.Or(value(limit), defaultLimit), value(token))
	if err != nil {
		abort(c, err)
		return
	}
	items, err := s.hydrate(c.Request.Context(), page)
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, answer(page, items, nextToken(page.next)))
}

// nextToken leaves the member out on the last page.
func nextToken(token string) *string {
	if token == "" {
		return nil
	}
	return &token
}

// hydrateAtOnce bounds the point reads of one list request.
const hydrateAtOnce = 8

// hydrate reads the videos of a page. An index follows the truth a moment later,
// so what is gone, going or not public any more is left out here: a list never
// shows a dangling entry.
func (s *Server) hydrate(ctx context.Context, page idPage) ([]api.Video, error) {
	found := make([]*api.Video, len(page.ids))
	errs := make([]error, len(page.ids))
	slots := make(chan struct{}, hydrateAtOnce)
	var wg sync.WaitGroup
	for i, id := range page.ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rec, err := s.videos.Get(ctx, id)
			switch {
			case errors.Is(err, videostore.ErrNotFound), errors.Is(err, tablestore.ErrUnreadable):
			case err != nil:
				errs[i] = err
			case access.MaySee(ctx, rec.Video) == nil && (page.own || rec.Video.Visibility == video.Public):
				progress, _ := rec.Progress() // one point read a video, and no more
				v := s.publicVideo(rec, progress)
				found[i] = &v
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	items := []api.Video{}
	for _, v := range found {
		if v != nil {
			items = append(items, *v)
		}
	}
	return items, nil
}
