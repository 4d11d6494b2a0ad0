package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/upload"
)

// mediaTypes are those of a body that may be a bare file.
var mediaTypes = []string{"application/octet-stream", "video/*"}

func init() {
	for _, c := range video.Containers {
		mediaTypes = append(mediaTypes, c.Types...)
	}
}

// PutContent implements PUT /videos/{id}/content.
func (s *Server) PutContent(c *gin.Context, id api.ID, params api.PutContentParams) {
	r := c.Request
	if r.Header.Get("Content-Type") == "" { // curl -T sends none
		r.Header.Set("Content-Type", mediaTypes[0])
	}
	_, err := wantType(r, mediaTypes...)
	if r.ContentLength < 0 {
		err = problem.New(problem.LengthRequired, "Send a Content-Length.")
	}
	var sum []byte
	if err == nil {
		sum, err = upload.ParseMD5(params.ContentMD5)
	}
	if err != nil {
		refuseBody(c, err)
		return
	}
	middleware.StreamsIn(r)
	rec, err := s.Uploads.Put(r.Context(), id, upload.Body{Reader: r.Body, Size: r.ContentLength, MD5: sum})
	if err != nil {
		refuseBody(c, err)
		return
	}
	s.replyVideo(c, http.StatusAccepted, rec, nil)
}

// GetUpload implements GET /videos/{id}/upload. The URLs in the answer are
// secrets: they are never logged.
func (s *Server) GetUpload(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (api.Upload, error) {
		return s.Uploads.Status(ctx, id)
	})
}

// BeginUpload implements POST /videos/{id}/upload.
func (s *Server) BeginUpload(c *gin.Context, id api.ID) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.Upload, _ error) {
		body, err := readOptional[api.UploadBegin](s, c)
		if err != nil {
			return out, err
		}
		return s.Uploads.Begin(ctx, id, body.SizeBytes, body.Anew)
	})
}

// CompleteUpload implements POST /videos/{id}/upload/complete.
func (s *Server) CompleteUpload(c *gin.Context, id api.ID) {
	body, err := readOptional[api.UploadComplete](s, c)
	sums := make([][]byte, len(body.Md5))
	for i := 0; i < len(sums) && err == nil; i++ {
		sums[i], err = upload.ParseMD5(body.Md5[i])
	}
	var rec videostore.Record
	if err == nil {
		rec, err = s.Uploads.Complete(c.Request.Context(), id, sums)
	}
	s.replyVideo(c, http.StatusAccepted, rec, err)
}
