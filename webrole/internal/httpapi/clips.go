package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// CreateClip implements POST /videos/{id}/clips.
func (s *Server) CreateClip(c *gin.Context, id api.ID) {
	s.replyClip(c, http.StatusAccepted, func(ctx context.Context) (none engine.Run, _ error) {
		body, err := readJSON[api.NewClip](s, c)
		if err != nil {
			return none, err
		}
		footage, err := s.Videos.Footage(ctx, id)
		if err != nil {
			return none, err
		}
		return s.requestClip(ctx, footage, body.StartSeconds, body.DurationSeconds)
	})
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
func (s *Server) CreateFinishClip(c *gin.Context, event api.Event, bib api.BibInPath) {
	s.replyClip(c, http.StatusAccepted, func(ctx context.Context) (none engine.Run, _ error) {
		body, err := readJSON[api.NewFinishClip](s, c)
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
		return s.requestClip(ctx, footage, from, to-from)
	})
}

// finish finds the first video, or the one that is wanted, that shows a runner's
// finish, and at which second.
func (s *Server) finish(ctx context.Context, event registrations.Event, bib int, wanted string) (footage videostore.Footage, at float64, err error) {
	runner, err := s.Races.Get(ctx, event, bib)
	if err != nil {
		return footage, 0, err
	}
	found, err := s.withMoments(ctx, event, []registrations.Registration{runner})
	if err != nil {
		return footage, 0, err
	}
	for _, m := range found[0].Moments {
		if wanted != "" && wanted != m.VideoId {
			continue
		}
		footage, err = s.Videos.Footage(ctx, engine.ID(m.VideoId))
		if err == nil && m.AtSeconds < footage.Seconds() {
			return footage, m.AtSeconds, nil
		}
		if err != nil && !errors.Is(err, engine.ErrNotFound) { // deleted this instant
			return footage, 0, err
		}
	}
	return footage, 0, problem.New(problem.MomentNotFound, "No video shows this runner's finish.")
}

func (s *Server) requestClip(ctx context.Context, footage videostore.Footage, start, length float64) (engine.Run, error) {
	key, err := footage.Clip(start, length)
	if err != nil {
		return engine.Run{}, err
	}
	return s.Videos.RequestClip(ctx, key, access.IdentityOf(ctx).Owner)
}

// GetClip implements GET /videos/{id}/clips/{clip}.
func (s *Server) GetClip(c *gin.Context, id api.ID, name api.ClipID) {
	s.replyClip(c, http.StatusOK, func(ctx context.Context) (none engine.Run, _ error) {
		key, err := videostore.ParseClipID(id, name)
		if err != nil {
			return none, err
		}
		return s.Videos.Requested(ctx, key)
	})
}

func (s *Server) replyClip(c *gin.Context, status int, find func(context.Context) (engine.Run, error)) {
	handle(c, status, func(ctx context.Context) (out api.Clip, _ error) {
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
func (s *Server) ListClips(c *gin.Context, id api.ID, params api.ListClipsParams) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.ClipList, _ error) {
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

// stateOf is the state of a step that a user asked for, in the words of the API.
func stateOf(step engine.Run) string {
	if step.State == engine.RunDone {
		return "ready"
	}
	return string(step.State)
}

// publicClip is a clip as the API shows it. Its times are those of its frames,
// by the plan of its generation, which is remembered.
func (s *Server) publicClip(ctx context.Context, clip engine.Run) (api.Clip, error) {
	plan, err := s.Videos.Plan(ctx, clip.Key.ID, clip.Key.Generation)
	if err != nil {
		return api.Clip{}, err
	}
	id, name := clip.Key.ID, clip.Key.Name()
	out := api.Clip{
		Id: name, VideoId: string(id), State: api.ClipState(stateOf(clip)), CreatedAt: clip.CreatedAt, Error: stepFailure(clip),
		StartSeconds: plan.FPS.Seconds(int64(clip.Key.Index)), DurationSeconds: plan.FPS.Seconds(int64(clip.Key.Length)),
	}
	out.Links.Self = pathOf(id) + "/clips/" + name
	if clip.State == engine.RunDone {
		out.Links.Media = new("/v/" + string(id) + "/clips/" + name + ".mp4")
	}
	return out, nil
}

// CreateCaptions implements POST /videos/{id}/captions/{language}: first the file,
// then the row with the promise of the work item, then the message (Q9). The file
// is named by its hash, so that sending it again asks for nothing new.
func (s *Server) CreateCaptions(c *gin.Context, id api.ID, language api.Language) {
	handle(c, http.StatusAccepted, func(ctx context.Context) (out api.Captions, _ error) {
		key, err := videostore.CaptionsKey(id, language)
		if err == nil {
			_, err = wantType(c.Request, "text/vtt", "application/x-subrip", "text/plain")
		}
		if err != nil {
			return out, err
		}
		file, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, video.MaxCaptions))
		if err != nil {
			return out, fmt.Errorf("read body: %w", err)
		}
		input := video.CaptionsBlob(key.ID, key.Variant, hashOf(file))
		// Written anew even when it is there: the janitor spares what is young.
		_, err = s.Blobs.Put(ctx, engine.SourcesContainer, input, file, blobstore.Options{ContentType: "text/plain"})
		if err != nil {
			return out, err
		}
		captions, err := s.Videos.RequestCaptions(ctx, key, input)
		if err != nil {
			return out, err
		}
		out, err = publicCaptions(captions)
		c.Header("Location", out.Links.Self)
		return out, err
	})
}

// GetCaptions implements GET /videos/{id}/captions/{language}.
func (s *Server) GetCaptions(c *gin.Context, id api.ID, language api.Language) {
	file, err := s.captionsFile(c.Request.Context(), id, language)
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/vtt; charset=utf-8", file)
}

func (s *Server) captionsFile(ctx context.Context, id engine.ID, language string) ([]byte, error) {
	key, err := videostore.CaptionsKey(id, language)
	if err != nil {
		return nil, err
	}
	captions, err := s.Videos.Requested(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := engine.OutputOf[video.CaptionsOutput](captions)
	switch {
	case err != nil:
		return nil, err
	case out == nil && captions.State == engine.RunFailed:
		return nil, problem.New(problem.Code{Name: string(captions.Error.Code), Status: http.StatusConflict}, "%s", captions.Error.Detail)
	case out == nil:
		return nil, problem.New(problem.CaptionsNotReady, "The captions are being made.").After(1)
	}
	file, err := s.Blobs.Get(ctx, engine.MediaContainer, out.Blob)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", captions.Key, err)
	}
	return file[:min(int64(len(file)), out.Bytes)], nil
}

// ListCaptions implements GET /videos/{id}/captions: one row range of the video's
// partition (T5).
func (s *Server) ListCaptions(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.CaptionsList, _ error) {
		all, err := s.Videos.AllCaptions(ctx, id)
		out.Items = make([]api.Captions, len(all))
		for i := 0; i < len(all) && err == nil; i++ {
			out.Items[i], err = publicCaptions(all[i])
		}
		return out, err
	})
}

// DeleteCaptions implements DELETE /videos/{id}/captions/{language}.
func (s *Server) DeleteCaptions(c *gin.Context, id api.ID, language api.Language) {
	key, err := videostore.CaptionsKey(id, language)
	if err == nil {
		err = s.Videos.DropRequest(c.Request.Context(), engine.Run{Key: key})
	}
	reply(c, http.StatusNoContent, nil, err)
}

func publicCaptions(captions engine.Run) (api.Captions, error) {
	id, language := captions.Key.ID, captions.Key.Variant
	out := api.Captions{
		Language: language, Name: videostore.LanguageName(language), VideoId: string(id),
		State: api.CaptionsState(stateOf(captions)), CreatedAt: captions.CreatedAt, Error: stepFailure(captions),
	}
	out.Links.Self = pathOf(id) + "/captions/" + language
	made, err := engine.OutputOf[video.CaptionsOutput](captions)
	if made != nil {
		out.Cues, out.LeftOut, out.Links.Media = &made.Cues, &made.LeftOut, new("/v/"+string(id)+"/captions/"+language+".vtt")
		out.Charset = api.Some(made.Charset)
	}
	return out, err
}
