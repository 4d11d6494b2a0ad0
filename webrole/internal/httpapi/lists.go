package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// ListVideos implements GET /videos.
func (s *Server) ListVideos(c *gin.Context, params api.ListVideosParams) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.VideoList, err error) {
		ids, next, err := s.idsListed(c, params)
		if err == nil {
			out.Items, err = s.Hydrate(ctx, ids, params.Owner != "")
		}
		out.NextPageToken = api.Some(next)
		return out, err
	})
}

func (s *Server) idsListed(c *gin.Context, params api.ListVideosParams) (ids []engine.ID, next string, err error) {
	ctx := c.Request.Context()
	limit, token := params.Limit, params.PageToken
	own := params.Owner != ""
	owner := access.IdentityOf(ctx).Owner
	switch {
	case params.Sort == api.ListVideosParamsSortTitle && params.Channel == "":
		return nil, "", problem.New(problem.InvalidParameter, "Sorting by title needs a channel.")
	case own && params.Channel != "":
		return nil, "", problem.New(problem.InvalidParameter, "Your own videos are not listed by channel.")
	case own && owner == "":
		return nil, "", access.Refused(c)
	case own:
		for _, f := range s.Features {
			if f.Owned != nil {
				return f.Owned(ctx, owner, limit, token)
			}
		}
		return nil, "", problem.New(problem.NotFound, "Videos are not listed by owner here.")
	case params.Channel == "":
		return s.Catalog.Recent(ctx, limit, token)
	}
	return s.Catalog.Channel(ctx, params.Channel, catalog.Sort(params.Sort), limit, token)
}

const hydrateAtOnce = 8

// Hydrate reads the videos of a page, one point read each, and leaves out those that are
// not shown.
func (s *Server) Hydrate(ctx context.Context, ids []engine.ID, own bool) ([]api.Video, error) {
	found := make([]api.Video, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hydrateAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			rec, err := s.Shown(ctx, id, own)
			if rec != nil {
				progress, _ := videostore.QuickProgress(rec.Subject)
				found[i] = s.publicVideo(*rec, progress)
			}
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(found, func(v api.Video) bool { return v.Id == "" }), err
}

// Shown reads a video that an index names. The index follows the truth a moment later, so
// it is nil when it is gone, is being deleted or, unless the list is the requester's own,
// is not public any more.
func (s *Server) Shown(ctx context.Context, id engine.ID, own bool) (*videostore.Record, error) {
	rec, err := s.Videos.Get(ctx, id)
	switch {
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, tablestore.ErrUnreadable):
		return nil, nil
	case err != nil:
		return nil, err
	case access.MaySee(ctx, rec.Subject) != nil, !own && rec.Subject.Visibility != video.Public:
		return nil, nil
	}
	return &rec, nil
}
