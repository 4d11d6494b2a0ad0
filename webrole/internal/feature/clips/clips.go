// Package clips makes short parts of a video, as MP4.
package clips

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/clips"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
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
	s := &Clips{core}
	f := feature(s)
	f.Plays = map[string]web.Files{"clips": s.file}
	f.Problems = []problem.Answer{
		problem.When(clips.ErrOutside, problem.InvalidBody, "The part is not inside the video."),
	}
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
		footage, err := clips.FootageOf(ctx, s.Videos, id)
		if err != nil {
			return none, err
		}
		return s.Request(ctx, footage, body.StartSeconds, body.DurationSeconds)
	})
}

// Request asks for a clip of some seconds.
func (s *Clips) Request(ctx context.Context, footage clips.Footage, start, length float64) (engine.Run, error) {
	key, err := footage.Clip(start, length)
	if err != nil {
		return engine.Run{}, err
	}
	return clips.Request(ctx, s.Videos, key, access.IdentityOf(ctx).Owner)
}

// GetClip implements GET /videos/{id}/clips/{clip}.
func (s *Clips) GetClip(c *gin.Context, id api.ID, name api.ClipID) {
	s.Reply(c, http.StatusOK, func(ctx context.Context) (none engine.Run, _ error) {
		key, err := clips.ParseID(id, name)
		if err != nil {
			return none, err
		}
		return s.Videos.ReadRun(ctx, key)
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
		found, next, err := clips.List(ctx, s.Videos, id, params.Limit, params.PageToken)
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

// file is a clip that is ready: one point read more than for a segment. Its address names
// the generation, so the bytes there never change.
func (s *Clips) file(ctx context.Context, v video.Video, file string) (none web.File, _ error) {
	name, ok := strings.CutSuffix(file, ".mp4")
	key, err := clips.ParseID(v.ID, name)
	if !ok || err != nil {
		return none, web.NoFile()
	}
	clip, err := s.Videos.ReadRun(ctx, key)
	if err != nil {
		return none, err
	}
	out, err := engine.OutputOf[engine.File](clip)
	if out == nil {
		return none, cmp.Or(err, web.NoFile())
	}
	return web.File{Blob: out.Blob, Bytes: out.Bytes, ContentType: "video/mp4", Fixed: true}, nil
}
