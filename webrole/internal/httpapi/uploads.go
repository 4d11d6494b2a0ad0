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

	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// PutContent implements PUT /videos/{id}/content.
func (s *Server) PutContent(c *gin.Context, id api.ID, params api.PutContentParams) {
	r := c.Request
	err := wantMedia(r)
	var sum []byte
	if err == nil {
		sum, err = upload.ParseMD5(api.Value(params.ContentMD5))
	}
	if err != nil {
		refuseBody(c, err)
		return
	}
	middleware.StreamsIn(r)
	control := http.NewResponseController(c.Writer)
	rec, err := s.Uploads.Put(r.Context(), video.ID(id), upload.Body{
		Reader: r.Body, Size: r.ContentLength, MD5: sum,
		Interrupt: func() { _ = control.SetReadDeadline(time.Now()) },
	})
	if err != nil {
		refuseBody(c, err)
		return
	}
	s.replyVideo(c, http.StatusAccepted, rec, nil)
}

// wantMedia refuses what is certainly not a bare file. curl -T sends no type.
func wantMedia(r *http.Request) error {
	if r.ContentLength < 0 {
		return problem.New(problem.LengthRequired, "Send a Content-Length.")
	}
	if err := wantPlain(r); err != nil {
		return err
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if err != nil {
		return problem.New(problem.UnsupportedType, "The Content-Type cannot be read.").Because(err)
	}
	ofContainer := func(c video.Container) bool { return slices.Contains(c.Types, kind) }
	if strings.HasPrefix(kind, "video/") || kind == "application/octet-stream" || slices.ContainsFunc(video.Containers, ofContainer) {
		return nil
	}
	return problem.New(problem.UnsupportedType, "Send the bare file as application/octet-stream or video/*.")
}

// GetUpload implements GET /videos/{id}/upload. The URLs in the answer are
// secrets: they are never logged.
func (s *Server) GetUpload(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (api.Upload, error) {
		return publicUpload(s.Uploads.Status(ctx, video.ID(id)))
	})
}

// BeginUpload implements POST /videos/{id}/upload.
func (s *Server) BeginUpload(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.Upload, _ error) {
		body, err := readOptional[api.UploadBegin](s, c)
		if err != nil {
			return out, err
		}
		return publicUpload(s.Uploads.Begin(ctx, video.ID(id), body.SizeBytes, body.Anew))
	})
}

func publicUpload(s upload.Progress, err error) (api.Upload, error) {
	if err != nil {
		return api.Upload{}, err
	}
	return api.Upload{
		SizeBytes: s.Layout.Bytes, PartSizeBytes: s.Layout.PartBytes, Parts: s.Layout.Count(), First: s.First,
		Held: api.Each(s.Held, func(p sourceparts.Part) api.PartHeld {
			return api.PartHeld{Number: p.Number, Md5: base64.StdEncoding.EncodeToString(p.MD5)}
		}),
		Send:      api.Each(s.Send, func(t upload.Ticket) api.PartToSend { return api.PartToSend{Number: t.Number, Url: t.URL} }),
		ExpiresAt: s.Expires, Playable: s.Video.Playable,
	}, nil
}

// CompleteUpload implements POST /videos/{id}/upload/complete.
func (s *Server) CompleteUpload(c *gin.Context, id api.ID) {
	body, err := readOptional[api.UploadComplete](s, c)
	sums := make([][]byte, len(body.Md5))
	for i := 0; i < len(sums) && err == nil; i++ {
		sums[i], err = upload.ParseMD5(body.Md5[i])
	}
	if err != nil {
		abort(c, err)
		return
	}
	s.change(c, id, func(ctx context.Context, id video.ID) (videostore.Record, error) {
		return s.Uploads.Complete(ctx, id, sums)
	})
}
