// Package finishclips makes the clip of a runner's finish. It needs the features races and clips.
package finishclips

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore"
	shared "github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/feature/clips"
	"github.com/cutroom/cutroom/webrole/internal/feature/races"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct {
	clips *clips.Clips
	races *races.Races
}

// momentNotFound says that no video shows the runner's finish.
var momentNotFound = problem.Code{Name: "moment_not_found", Status: http.StatusNotFound}

// New returns the feature.
func New(account *azstore.Account, core *httpapi.Server) web.Feature {
	return feature(&server{&clips.Clips{Server: core}, &races.Races{Server: core, Store: registrations.New(account)}})
}

const (
	// finishMargin is how much is shown before a finish and after it, in seconds,
	// when the request does not say.
	finishMargin = 5.0
	// shortestClip is the least that may be asked for, in seconds; see NewClip in
	// the document.
	shortestClip = 0.1
)

// CreateFinishClip implements POST /events/{event}/registrations/{bib}/clips:
// find your own finish by your bib (T7).
func (s *server) CreateFinishClip(c *gin.Context, event api.Event, bib api.BibInPath) {
	s.clips.Reply(c, http.StatusAccepted, func(ctx context.Context) (none engine.Run, _ error) {
		body, err := web.ReadJSON[api.NewFinishClip](c)
		if err != nil {
			return none, err
		}
		footage, at, err := s.finish(ctx, event, bib, body.VideoId)
		if err != nil {
			return none, err
		}
		margin := finishMargin
		before, after := *cmp.Or(body.BeforeSeconds, &margin), *cmp.Or(body.AfterSeconds, &margin)
		// A finish near an end of the video has less around it.
		from, to := max(0, at-before), min(footage.Seconds(), at+after)
		if to-from < shortestClip {
			return none, problem.New(problem.InvalidBody, "A clip lasts %g seconds at least.", shortestClip)
		}
		return s.clips.Request(ctx, footage, from, to-from)
	})
}

// finish finds the first video, or the one that is wanted, that shows a runner's
// finish, and at which second.
func (s *server) finish(ctx context.Context, event registrations.Event, bib int, wanted string) (footage shared.Footage, at float64, err error) {
	runner, err := s.races.Store.Get(ctx, event, bib)
	if err != nil {
		return footage, 0, err
	}
	found, err := s.races.WithMoments(ctx, event, []registrations.Registration{runner})
	if err != nil {
		return footage, 0, err
	}
	for _, m := range found[0].Moments {
		if wanted != "" && wanted != m.VideoId {
			continue
		}
		footage, err = shared.FootageOf(ctx, s.clips.Videos, engine.ID(m.VideoId))
		if err == nil && m.AtSeconds < footage.Seconds() {
			return footage, m.AtSeconds, nil
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) { // deleted this instant
			return footage, 0, err
		}
	}
	return footage, 0, problem.New(momentNotFound, "No video shows this runner's finish.")
}
