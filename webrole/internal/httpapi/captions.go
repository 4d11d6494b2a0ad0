package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// CreateCaptions implements POST /videos/{id}/captions/{language}: first the file,
// then the row with the promise of the work item, then the message (Q9). The file
// is named by its hash, so that sending it again asks for nothing new.
func (s *Server) CreateCaptions(c *gin.Context, id api.ID, language api.Language) {
	ctx := c.Request.Context()
	key, err := videostore.CaptionsKey(video.ID(id), language)
	if err == nil {
		err = s.mustExist(c, id)
	}
	if err == nil {
		_, err = wantType(c.Request, "text/vtt", "application/x-subrip", "text/plain")
	}
	if err != nil {
		abort(c, err)
		return
	}
	file, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, video.MaxCaptions))
	if err != nil {
		abort(c, bodyReadProblem(err))
		return
	}
	sum := sha256.Sum256(file)
	input := video.CaptionsBlob(key.ID, key.Language, hex.EncodeToString(sum[:]))
	// Written anew even when it is there: the janitor spares what is young.
	_, err = s.blobs.Put(ctx, video.SourcesContainer, input, file, blobstore.Options{ContentType: "text/plain"})
	var captions videostore.Step
	if err == nil {
		captions, err = s.videos.RequestCaptions(ctx, key, input)
	}
	var out api.Captions
	if err == nil {
		out, err = publicCaptions(captions)
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Location", out.Links.Self)
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusAccepted, out)
}

// GetCaptions implements GET /videos/{id}/captions/{language}.
func (s *Server) GetCaptions(c *gin.Context, id api.ID, language api.Language) {
	ctx := c.Request.Context()
	key, err := videostore.CaptionsKey(video.ID(id), language)
	if err == nil {
		err = s.mustExist(c, id)
	}
	var captions videostore.Step
	if err == nil {
		captions, err = s.videos.Captions(ctx, key)
	}
	var file []byte
	if err == nil {
		file, err = s.captionsFile(c, captions)
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/vtt; charset=utf-8", file)
}

// captionsFile reads what is served, or returns why there is nothing yet.
func (s *Server) captionsFile(c *gin.Context, captions videostore.Step) ([]byte, error) {
	out, found, err := captions.CaptionsOutput()
	switch {
	case err != nil:
		return nil, err
	case !found && captions.State == videostore.StepFailed:
		return nil, problem.New(http.StatusConflict, string(captions.Error.Code), "%s", captions.Error.Detail)
	case !found:
		e := problem.New(http.StatusNotFound, problem.CaptionsNotReady, "The captions are being made.")
		e.RetryAfter = 1
		return nil, e
	}
	body, _, err := s.blobs.Open(c.Request.Context(), video.MediaContainer, out.Blob, blobstore.Range{Length: out.Bytes}, "")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", captions.Key, err)
	}
	defer body.Close() //nolint:errcheck // reading only
	file, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", captions.Key, err)
	}
	return file, nil
}

// ListCaptions implements GET /videos/{id}/captions: one row range of the video's
// partition (T5).
func (s *Server) ListCaptions(c *gin.Context, id api.ID) {
	err := s.mustExist(c, id)
	var all []videostore.Step
	if err == nil {
		all, err = s.videos.AllCaptions(c.Request.Context(), video.ID(id))
	}
	list := api.CaptionsList{Items: make([]api.Captions, len(all))}
	for i, captions := range all {
		if err == nil {
			list.Items[i], err = publicCaptions(captions)
		}
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, list)
}

// DeleteCaptions implements DELETE /videos/{id}/captions/{language}.
func (s *Server) DeleteCaptions(c *gin.Context, id api.ID, language api.Language) {
	key, err := videostore.CaptionsKey(video.ID(id), language)
	if err == nil {
		err = s.mustExist(c, id)
	}
	if err == nil {
		err = s.videos.DropCaptions(c.Request.Context(), key)
	}
	if err != nil {
		abort(c, err)
		return
	}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
}

// captionsStates are the states of a step in the words of the API.
var captionsStates = map[videostore.StepState]api.CaptionsState{
	videostore.StepQueued: api.CaptionsQueued, videostore.StepRunning: api.CaptionsRunning,
	videostore.StepDone: api.CaptionsReady, videostore.StepFailed: api.CaptionsFailed,
}

// publicCaptions is captions as the API shows them.
func publicCaptions(captions videostore.Step) (api.Captions, error) {
	id, language := string(captions.Key.ID), captions.Key.Language
	out := api.Captions{
		Language: language, Name: videostore.LanguageName(language), VideoId: id,
		State: captionsStates[captions.State], CreatedAt: captions.CreatedAt,
	}
	out.Links.Self = Base + "/videos/" + id + "/captions/" + language
	made, found, err := captions.CaptionsOutput()
	if found {
		out.Cues, out.LeftOut, out.Links.Media = &made.Cues, &made.LeftOut, ptr("/v/"+id+"/captions/"+language+".vtt")
		if made.Charset != "" {
			out.Charset = &made.Charset
		}
	}
	if captions.State == videostore.StepFailed && captions.Error != nil {
		out.Error = &api.Failure{Code: string(captions.Error.Code), Detail: captions.Error.Detail}
	}
	return out, err
}
