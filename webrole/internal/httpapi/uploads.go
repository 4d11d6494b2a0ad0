package httpapi

import (
	"context"
	"encoding/base64"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/edge"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// PutContent implements PUT /videos/{id}/content.
func (s *Server) PutContent(c *gin.Context, id api.ID, params api.PutContentParams) {
	r := c.Request
	if err := wantMedia(r); err != nil {
		refuseBody(c, err)
		return
	}
	sum, err := upload.ParseMD5(value(params.ContentMD5))
	if err != nil {
		refuseBody(c, err)
		return
	}
	edge.StreamsIn(r)
	control := http.NewResponseController(c.Writer)
	rec, err := s.uploads.Put(r.Context(), video.ID(id), upload.Body{
		Reader: r.Body, Size: r.ContentLength, MD5: sum,
		Interrupt: func() { _ = control.SetReadDeadline(time.Now()) },
	})
	if err != nil {
		refuseBody(c, err)
		return
	}
	s.answer(c, http.StatusAccepted, rec)
}

// refuseBody answers without reading the rest of a body that may be gigabytes.
func refuseBody(c *gin.Context, err error) {
	c.Header("Connection", "close")
	abort(c, err)
}

// wantMedia refuses what is certainly not a bare file. curl -T sends no type.
func wantMedia(r *http.Request) error {
	if r.ContentLength < 0 {
		return problem.New(http.StatusLengthRequired, problem.LengthRequired, "Send a Content-Length.")
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "Compressed bodies are not taken.")
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if err != nil {
		return problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "The Content-Type cannot be read.").Because(err)
	}
	ofContainer := func(c video.Container) bool { return slices.Contains(c.Types, kind) }
	if strings.HasPrefix(kind, "video/") || kind == "application/octet-stream" || slices.ContainsFunc(video.Containers, ofContainer) {
		return nil
	}
	return problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "Send the bare file as application/octet-stream or video/*.")
}

// GetUpload implements GET /videos/{id}/upload. The URLs in the answer are
// secrets: they are never logged.
func (s *Server) GetUpload(c *gin.Context, id api.ID) {
	sending, err := s.uploads.Look(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, uploadOf(sending))
}

// BeginUpload implements POST /videos/{id}/upload.
func (s *Server) BeginUpload(c *gin.Context, id api.ID) {
	var body api.UploadBegin
	if c.Request.ContentLength != 0 {
		if err := s.readJSON(c, "UploadBegin", &body); err != nil {
			abort(c, err)
			return
		}
	}
	sending, err := s.uploads.Begin(c.Request.Context(), video.ID(id), body.SizeBytes, body.Anew)
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, uploadOf(sending))
}

func uploadOf(s upload.Sending) api.Upload {
	out := api.Upload{
		SizeBytes: s.Layout.Bytes, PartSizeBytes: s.Layout.PartBytes, Parts: s.Layout.Count(), First: s.First,
		Held: make([]api.PartHeld, len(s.Held)), Send: make([]api.PartToSend, len(s.Send)),
		ExpiresAt: s.Expires, Playable: s.Video.Playable,
	}
	for i, p := range s.Held {
		out.Held[i] = api.PartHeld{Number: p.Number, Md5: base64.StdEncoding.EncodeToString(p.MD5)}
	}
	for i, t := range s.Send {
		out.Send[i] = api.PartToSend{Number: t.Number, Url: t.URL}
	}
	return out
}

// CompleteUpload implements POST /videos/{id}/upload/complete.
func (s *Server) CompleteUpload(c *gin.Context, id api.ID) {
	var sums [][]byte
	if c.Request.ContentLength != 0 {
		var body api.UploadComplete
		if err := s.readJSON(c, "UploadComplete", &body); err != nil {
			abort(c, err)
			return
		}
		for _, text := range body.Md5 {
			sum, err := upload.ParseMD5(text)
			if err != nil {
				abort(c, err)
				return
			}
			sums = append(sums, sum)
		}
	}
	s.change(c, id, func(ctx context.Context, id video.ID) (videostore.Record, error) {
		return s.uploads.Complete(ctx, id, sums)
	})
}
