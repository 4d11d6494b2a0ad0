// Package captions takes subtitles of a video and shows them.
package captions

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

type server struct{ *httpapi.Server }

var notReady = problem.Code{Name: "captions_not_ready", Status: http.StatusNotFound}

// New returns the feature.
func New(core *httpapi.Server) web.Feature {
	f := feature(&server{core})
	f.Problems = []problem.Answer{
		problem.When(videostore.ErrLanguage, problem.InvalidParameter, "This is not the BCP 47 tag of a language, such as en or pt-BR."),
		problem.When(videostore.ErrLanguages, problem.StateConflict, "This video has captions in as many languages as it may. Remove some."),
	}
	f.Links = func(v video.Video, l *api.Links) { l.Captions = new(web.PathOf(v.ID) + "/captions") }
	return f
}

// CreateCaptions implements POST /videos/{id}/captions/{language}: first the file,
// then the row with the promise of the work item, then the message (Q9). The file
// is named by its hash, so that sending it again asks for nothing new.
func (s *server) CreateCaptions(c *gin.Context, id api.ID, language api.Language) {
	web.Handle(c, http.StatusAccepted, func(ctx context.Context) (out api.Captions, _ error) {
		key, err := videostore.CaptionsKey(id, language)
		if err == nil {
			_, err = web.WantType(c.Request, "text/vtt", "application/x-subrip", "text/plain")
		}
		if err != nil {
			return out, err
		}
		file, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, video.MaxCaptions))
		if err != nil {
			return out, fmt.Errorf("read body: %w", err)
		}
		input := video.CaptionsBlob(key.ID, key.Variant, web.HashOf(file))
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
func (s *server) GetCaptions(c *gin.Context, id api.ID, language api.Language) {
	file, err := s.captionsFile(c.Request.Context(), id, language)
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/vtt; charset=utf-8", file)
}

func (s *server) captionsFile(ctx context.Context, id engine.ID, language string) ([]byte, error) {
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
		return nil, problem.New(notReady, "The captions are being made.").After(1)
	}
	file, err := s.Blobs.Get(ctx, engine.MediaContainer, out.Blob)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", captions.Key, err)
	}
	return file[:min(int64(len(file)), out.Bytes)], nil
}

// ListCaptions implements GET /videos/{id}/captions: one row range of the video's
// partition (T5).
func (s *server) ListCaptions(c *gin.Context, id api.ID) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.CaptionsList, _ error) {
		all, err := s.Videos.AllCaptions(ctx, id)
		out.Items = make([]api.Captions, len(all))
		for i := 0; i < len(all) && err == nil; i++ {
			out.Items[i], err = publicCaptions(all[i])
		}
		return out, err
	})
}

// DeleteCaptions implements DELETE /videos/{id}/captions/{language}.
func (s *server) DeleteCaptions(c *gin.Context, id api.ID, language api.Language) {
	key, err := videostore.CaptionsKey(id, language)
	if err == nil {
		err = s.Videos.DropRequest(c.Request.Context(), engine.Run{Key: key})
	}
	web.Reply(c, http.StatusNoContent, nil, err)
}

func publicCaptions(captions engine.Run) (api.Captions, error) {
	id, language := captions.Key.ID, captions.Key.Variant
	out := api.Captions{
		Language: language, Name: videostore.LanguageName(language), VideoId: string(id),
		State: api.CaptionsState(httpapi.StateOf(captions)), CreatedAt: captions.CreatedAt, Error: httpapi.FailureOf(captions),
	}
	out.Links.Self = web.PathOf(id) + "/captions/" + language
	made, err := engine.OutputOf[video.CaptionsOutput](captions)
	if made != nil {
		out.Cues, out.LeftOut, out.Links.Media = &made.Cues, &made.LeftOut, new("/v/"+string(id)+"/captions/"+language+".vtt")
		out.Charset = api.Some(made.Charset)
	}
	return out, err
}
