// Package clips makes short parts of a video, as MP4.
package clips

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Clips makes clips. It is safe for concurrent use.
type Clips struct{ *httpapi.Server }

// New returns the feature.
func New(core *httpapi.Server) web.Feature {
	f := feature(&Clips{core})
	f.Problems = []problem.Answer{problem.When(videostore.ErrOutside, problem.InvalidBody, "The part is not inside the video.")}
	f.Links = func(v video.Video, l *api.Links) {
		if v.Serving > 0 {
			l.Clips = new(web.PathOf(v.ID) + "/clips")
		}
	}
	return f
}

// CreateClip implements POST /videos/{id}/clips.
func (s *Clips) CreateClip(c *gin.Context, id api.ID) {
	s.Reply(c, http.StatusAccepted, func(ctx context.Context) (none engine.Run, _ error) {
		body, err := web.ReadJSON[api.NewClip](c)
		if err != nil {
			return none, err
		}
		footage, err := s.Videos.Footage(ctx, id)
		if err != nil {
			return none, err
		}
		return s.Request(ctx, footage, body.StartSeconds, body.DurationSeconds)
	})
}

// Request asks for a clip of some seconds.
func (s *Clips) Request(ctx context.Context, footage videostore.Footage, start, length float64) (engine.Run, error) {
	key, err := footage.Clip(start, length)
	if err != nil {
		return engine.Run{}, err
	}
	return s.Videos.RequestClip(ctx, key, access.IdentityOf(ctx).Owner)
}

// GetClip implements GET /videos/{id}/clips/{clip}.
func (s *Clips) GetClip(c *gin.Context, id api.ID, name api.ClipID) {
	s.Reply(c, http.StatusOK, func(ctx context.Context) (none engine.Run, _ error) {
		key, err := videostore.ParseClipID(id, name)
		if err != nil {
			return none, err
		}
		return s.Videos.Requested(ctx, key)
	})
}

// Reply answers with a clip that find finds or asks for.
func (s *Clips) Reply(c *gin.Context, status int, find func(context.Context) (engine.Run, error)) {
	web.Handle(c, status, func(ctx context.Context) (out api.Clip, _ error) {
		clip, err := find(ctx)
		if err != nil {
			return out, err
		}
		out, err = s.publicClip(ctx, clip)
		c.Header("Location", out.Links.Self)
		return out, err
	})
}

// ListClips implements GET /videos/{id}/clips: one row range of the video's
// partition (T5).
func (s *Clips) ListClips(c *gin.Context, id api.ID, params api.ListClipsParams) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.ClipList, _ error) {
		found, next, err := s.Videos.Clips(ctx, id, params.Limit, params.PageToken)
		if err != nil {
			return out, err
		}
		out.Items, out.NextPageToken = []api.Clip{}, api.Some(next)
		for _, clip := range found {
			item, err := s.publicClip(ctx, clip)
			switch {
			case err == nil:
				out.Items = append(out.Items, item)
			case !errors.Is(err, tablestore.ErrUnreadable): // its plan's row
				return out, err
			}
		}
		return out, nil
	})
}

// publicClip is a clip as the API shows it. Its times are those of its frames,
// by the plan of its generation, which is remembered.
func (s *Clips) publicClip(ctx context.Context, clip engine.Run) (api.Clip, error) {
	plan, err := s.Videos.Plan(ctx, clip.Key.ID, clip.Key.Generation)
	if err != nil {
		return api.Clip{}, err
	}
	id, name := clip.Key.ID, clip.Key.Name()
	out := api.Clip{
		Id: name, VideoId: string(id), State: api.ClipState(httpapi.StateOf(clip)), CreatedAt: clip.CreatedAt, Error: httpapi.FailureOf(clip),
		StartSeconds: plan.FPS.Seconds(int64(clip.Key.Index)), DurationSeconds: plan.FPS.Seconds(int64(clip.Key.Length)),
	}
	out.Links.Self = web.PathOf(id) + "/clips/" + name
	if clip.State == engine.RunDone {
		out.Links.Media = new("/v/" + string(id) + "/clips/" + name + ".mp4")
	}
	return out, nil
}
