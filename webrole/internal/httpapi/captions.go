package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

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
			return out, bodyReadProblem(err)
		}
		input := video.CaptionsBlob(key.ID, key.Language, hashOf(file))
		// Written anew even when it is there: the janitor spares what is young.
		_, err = s.Blobs.Put(ctx, video.SourcesContainer, input, file, blobstore.Options{ContentType: "text/plain"})
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

// captionsFile reads what is served, or returns why there is nothing yet.
func (s *Server) captionsFile(ctx context.Context, id video.ID, language string) ([]byte, error) {
	key, err := videostore.CaptionsKey(id, language)
	if err != nil {
		return nil, err
	}
	captions, err := s.Videos.Requested(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := videostore.OutputOf[video.CaptionsOutput](captions)
	switch {
	case err != nil:
		return nil, err
	case out == nil && captions.State == videostore.StepFailed:
		return nil, problem.New(problem.Code{Name: string(captions.Error.Code), Status: http.StatusConflict}, "%s", captions.Error.Detail)
	case out == nil:
		return nil, problem.New(problem.CaptionsNotReady, "The captions are being made.").After(1)
	}
	file, err := s.Blobs.Get(ctx, video.MediaContainer, out.Blob)
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
		err = s.Videos.DropRequest(c.Request.Context(), videostore.Step{Key: key})
	}
	reply(c, http.StatusNoContent, nil, err)
}

// publicCaptions is captions as the API shows them.
func publicCaptions(captions videostore.Step) (api.Captions, error) {
	id, language := captions.Key.ID, captions.Key.Language
	out := api.Captions{
		Language: language, Name: videostore.LanguageName(language), VideoId: string(id),
		State: api.CaptionsState(stateOf(captions)), CreatedAt: captions.CreatedAt, Error: stepFailure(captions),
	}
	out.Links.Self = pathOf(id) + "/captions/" + language
	made, err := videostore.OutputOf[video.CaptionsOutput](captions)
	if made != nil {
		out.Cues, out.LeftOut, out.Links.Media = &made.Cues, &made.LeftOut, new("/v/"+string(id)+"/captions/"+language+".vtt")
		out.Charset = api.Some(made.Charset)
	}
	return out, err
}
