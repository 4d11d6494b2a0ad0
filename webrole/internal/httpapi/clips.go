package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
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

// CreateFinishClip implements POST /events/{event}/registrations/{bib}/clips.
func (s *Server) CreateFinishClip(c *gin.Context, event api.Event, bib api.BibInPath) {
	c.Status(http.StatusNotImplemented)
}

func (s *Server) requestClip(c *gin.Context, footage videostore.Footage, start, length float64) {
	key, err := footage.Clip(start, length)
	if err != nil {
		abort(c, err)
		return
	}
	clip, err := s.videos.RequestClip(c.Request.Context(), key)
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
	items := make([]api.Clip, len(found))
	for i, clip := range found {
		if items[i], err = s.publicClip(ctx, clip); err != nil {
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
	id, name := string(clip.Key.ID), clip.Key.ClipID()
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
