package httpapi

import (
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
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
	switch {
	case strings.HasPrefix(kind, "video/"), kind == "application/octet-stream", kind == "application/mp4",
		kind == "application/ogg", kind == "application/x-matroska":
		return nil
	}
	return problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "Send the bare file as application/octet-stream or video/*.")
}

// GetUpload implements GET /videos/{id}/upload. The URL in the answer is a
// secret: it is never logged.
func (s *Server) GetUpload(c *gin.Context, id api.ID) {
	key, err := s.uploads.Key(c.Request.Context(), video.ID(id))
	if err != nil {
		abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	c.JSON(http.StatusOK, api.Upload{
		BlockSizeBytes: blobstore.BlockSize, BlockIdDigits: blobstore.BlockIDDigits, BlocksHeld: key.Held,
		Url: key.URL, ExpiresAt: key.Expires,
	})
}
