package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// CreateClip implements POST /videos/{id}/clips.
func (s *Server) CreateClip(c *gin.Context, id api.ID) {
	var body api.NewClip
	if err := s.readJSON(c, "NewClip", &body); err != nil {
		abort(c, err)
		return
	}
	footage, err := s.videos.Footage(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	s.requestClip(c, footage, body.StartSeconds, body.DurationSeconds)
}

const (
	// aroundFinish is how much is shown before a finish and after it, in seconds,
	// when the request does not say.
	aroundFinish = 5.0
	// shortestClip is the least that may be asked for, in seconds; see NewClip in
	// the document.
	shortestClip = 0.1
)

// CreateFinishClip implements POST /events/{event}/registrations/{bib}/clips:
// find your own finish by your bib (T7).
func (s *Server) CreateFinishClip(c *gin.Context, event api.Event, bib api.BibInPath) {
	body := api.NewFinishClip{BeforeSeconds: ptr(aroundFinish), AfterSeconds: ptr(aroundFinish)}
	if err := s.readJSON(c, "NewFinishClip", &body); err != nil {
		abort(c, err)
		return
	}
	footage, at, err := s.finish(c.Request.Context(), event, bib, value(body.VideoId))
	if err != nil {
		abort(c, err)
		return
	}
	// A finish near an end of the video has less around it.
	from, to := max(0, at-*body.BeforeSeconds), min(footage.Seconds(), at+*body.AfterSeconds)
	if to-from < shortestClip {
		abort(c, problem.New(http.StatusBadRequest, problem.InvalidBody, "A clip lasts %g seconds at least.", shortestClip))
		return
	}
	s.requestClip(c, footage, from, to-from)
}

// finish finds the first video, or the one that is wanted, that shows a runner's
// finish, and at which second.
func (s *Server) finish(ctx context.Context, event string, bib int, wanted string) (footage videostore.Footage, at float64, err error) {
	key, err := registrations.ParseEvent(event)
	var runner registrations.Registration
	if err == nil {
		runner, err = s.races.Get(ctx, key, bib)
	}
	if err != nil {
		return footage, 0, err
	}
	found, err := s.withMoments(ctx, key, []registrations.Registration{runner})
	if err != nil {
		return footage, 0, err
	}
	for _, m := range found[0].Moments {
		if wanted != "" && wanted != m.VideoId {
			continue
		}
		footage, err = s.videos.Footage(ctx, video.ID(m.VideoId))
		if err == nil && m.AtSeconds < footage.Seconds() {
			return footage, m.AtSeconds, nil
		}
		if err != nil && !errors.Is(err, videostore.ErrNotFound) { // deleted this instant
			return footage, 0, err
		}
	}
	return footage, 0, problem.New(http.StatusNotFound, problem.MomentNotFound, "No video shows this runner's finish.")
}

func (s *Server) requestClip(c *gin.Context, footage videostore.Footage, start, length float64) {
	key, err := footage.Clip(start, length)
	if err != nil {
		abort(c, err)
		return
	}
	clip, err := s.videos.RequestClip(c.Request.Context(), key, access.From(c.Request.Context()).Owner)
	if err != nil {
		abort(c, err)
		return
	}
	s.answerClip(c, http.StatusAccepted, clip)
}

// GetClip implements GET /videos/{id}/clips/{clip}.
func (s *Server) GetClip(c *gin.Context, id api.ID, name api.ClipID) {
	key, err := videostore.ParseClipID(video.ID(id), name)
	if err == nil {
		err = s.mustExist(c, id)
	}
	var clip videostore.Step
	if err == nil {
		clip, err = s.videos.Clip(c.Request.Context(), key)
	}
	if err != nil {
		abort(c, err)
		return
	}
	s.answerClip(c, http.StatusOK, clip)
}

// ListClips implements GET /videos/{id}/clips: one row range of the video's
// partition (T5).
func (s *Server) ListClips(c *gin.Context, id api.ID, params api.ListClipsParams) {
	limit := defaultLimit
	if params.Limit != nil {
		limit = *params.Limit
	}
	if err := s.mustExist(c, id); err != nil {
		abort(c, err)
		return
	}
	ctx := c.Request.Context()
	found, next, err := s.videos.Clips(ctx, video.ID(id), limit, value(params.PageToken))
	if err != nil {
		abort(c, err)
		return
	}
	items := make([]api.Clip, 0, len(found))
	for _, clip := range found {
		item, err := s.publicClip(ctx, clip)
		switch {
		case err == nil:
			items = append(items, item)
		case !errors.Is(err, tablestore.ErrUnreadable): // its plan's row
			abort(c, err)
			return
		}
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.ClipList{Items: items, NextPageToken: nextToken(next)})
}

func (s *Server) answerClip(c *gin.Context, status int, clip videostore.Step) {
	out, err := s.publicClip(c.Request.Context(), clip)
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Location", out.Links.Self)
	c.Header("Cache-Control", "no-store")
	c.JSON(status, out)
}

// clipStates are the states of a step in the words of the API.
var clipStates = map[videostore.StepState]api.ClipState{
	videostore.StepQueued: api.ClipQueued, videostore.StepRunning: api.ClipRunning,
	videostore.StepDone: api.ClipReady, videostore.StepFailed: api.ClipFailed,
}

// publicClip is a clip as the API shows it. Its times are those of its frames,
// by the plan of its generation, which is remembered.
func (s *Server) publicClip(ctx context.Context, clip videostore.Step) (api.Clip, error) {
	plan, err := s.videos.Plan(ctx, clip.Key.ID, clip.Key.Generation)
	if err != nil {
		return api.Clip{}, err
	}
	id, name := string(clip.Key.ID), clip.Key.Name()
	out := api.Clip{
		Id: name, VideoId: id, State: clipStates[clip.State], CreatedAt: clip.CreatedAt,
		StartSeconds: plan.FPS.Seconds(int64(clip.Key.Index)), DurationSeconds: plan.FPS.Seconds(int64(clip.Key.Frames)),
	}
	out.Links.Self = Base + "/videos/" + id + "/clips/" + name
	if clip.State == videostore.StepDone {
		out.Links.Media = ptr("/v/" + id + "/clips/" + name + ".mp4")
	}
	if clip.State == videostore.StepFailed && clip.Error != nil {
		out.Error = &api.Failure{Code: string(clip.Error.Code), Detail: clip.Error.Detail}
	}
	return out, nil
}
