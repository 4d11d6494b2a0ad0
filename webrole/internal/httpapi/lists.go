package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// Page is a page of what an index knows: ids, in order. The videos themselves
// are read from the truth, one point read each.
type Page struct {
	IDs          []video.ID
	Next         string // opaque; empty on the last page
	EntitiesRead int
	Requests     int

	// Of searches only.
	DidYouMean *api.SearchWords
	Facets     *api.Facets
}

// Finder is what lists and search need of the indexes. Tokens are opaque, bound
// to their query by whoever makes them, and refused by the same.
type Finder interface {
	Recent(ctx context.Context, limit int, token string) (Page, error)
	Channel(ctx context.Context, channel string, byTitle bool, limit int, token string) (Page, error)
	Search(ctx context.Context, search Search, limit int, token string) (Page, error)
}

// Search is what is searched for: every word of every text must match.
type Search struct {
	Any, Title, Description, Actor, Director, Tag, Channel string

	Best   bool // best match first, not newest
	Facets bool // count what the hits have in common
}

const defaultLimit = 20

// ListVideos implements GET /videos.
func (s *Server) ListVideos(c *gin.Context, params api.ListVideosParams) {
	byTitle := params.Sort != nil && *params.Sort == api.ListVideosParamsSortTitle
	if byTitle && params.Channel == nil {
		abort(c, problem.New(http.StatusBadRequest, problem.InvalidParameter, "Sorting by title needs a channel."))
		return
	}
	s.page(c, params.PageToken, params.Limit, func(ctx context.Context, limit int, token string) (Page, error) {
		if params.Channel == nil {
			return s.find.Recent(ctx, limit, token)
		}
		return s.find.Channel(ctx, *params.Channel, byTitle, limit, token)
	}, func(_ Page, items []api.Video, next *string) any {
		return api.VideoList{Items: items, NextPageToken: next}
	})
}

// SearchVideos implements GET /search.
func (s *Server) SearchVideos(c *gin.Context, params api.SearchVideosParams) {
	search := Search{
		Any: value(params.Q), Title: value(params.Title), Description: value(params.Description),
		Actor: value(params.Actor), Director: value(params.Director), Tag: value(params.Tag), Channel: value(params.Channel),
		Best:   params.Sort != nil && *params.Sort == api.SearchVideosParamsSortBest,
		Facets: params.Facets != nil && *params.Facets,
	}
	s.page(c, params.PageToken, params.Limit, func(ctx context.Context, limit int, token string) (Page, error) {
		return s.find.Search(ctx, search, limit, token)
	}, func(p Page, items []api.Video, next *string) any {
		return api.SearchResult{
			Items: items, NextPageToken: next, EntitiesRead: p.EntitiesRead, Requests: p.Requests,
			DidYouMean: p.DidYouMean, Facets: p.Facets,
		}
	})
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (s *Server) page(c *gin.Context, token *string, limit *int,
	read func(ctx context.Context, limit int, token string) (Page, error),
	answer func(Page, []api.Video, *string) any,
) {
	want := defaultLimit
	if limit != nil {
		want = *limit
	}
	page, err := read(c.Request.Context(), want, value(token))
	if err != nil {
		abort(c, err)
		return
	}
	items, err := s.hydrate(c.Request.Context(), page.IDs)
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, answer(page, items, nextToken(page.Next)))
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
func (s *Server) hydrate(ctx context.Context, ids []video.ID) ([]api.Video, error) {
	found := make([]*api.Video, len(ids))
	errs := make([]error, len(ids))
	slots := make(chan struct{}, hydrateAtOnce)
	var wg sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rec, err := s.videos.Get(ctx, id)
			switch {
			case errors.Is(err, videostore.ErrNotFound):
			case err != nil:
				errs[i] = err
			case rec.Video.State != video.Deleting && rec.Video.Visibility == video.Public:
				progress, _ := rec.Progress() // one point read a video, and no more
				v := publicVideo(rec, progress)
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
