package playback

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// resource is a run of bytes of an immutable blob in container "media".
type resource struct {
	blob        string
	offset      int64
	length      int64
	contentType string
	cache       string
	filename    string // set: the browser saves it
}

// etag is strong: blob names are unique to one attempt and never written twice.
func (res resource) etag() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", res.blob, res.offset, res.length))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// send answers with the resource or the part of it that was asked for.
func (s *Service) send(w http.ResponseWriter, r *http.Request, res resource) {
	h := w.Header()
	etag := res.etag()
	h.Set("ETag", etag)
	h.Set("Cache-Control", res.cache)
	h.Set("Accept-Ranges", "bytes")
	if matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header := r.Header.Get("Range")
	if cond := r.Header.Get("If-Range"); cond != "" && cond != etag {
		header = ""
	}
	part, partial, satisfiable := parseRange(header, res.length)
	if !satisfiable {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", res.length))
		problem.Write(w, r, problem.New(problem.RangeUnsatisfied, "The range lies outside of the %d bytes there are.", res.length))
		return
	}
	status := http.StatusOK
	if partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.to-1, res.length))
	}
	h.Set("Content-Type", res.contentType)
	h.Set("Content-Length", fmt.Sprint(part.to-part.from))
	if res.filename != "" {
		h.Set("Content-Disposition", res.filename)
	}
	if r.Method == http.MethodHead || part.to == part.from {
		w.WriteHeader(status)
		return
	}
	body, _, err := s.blobs.Open(r.Context(), video.MediaContainer, res.blob, blobstore.Range{Offset: res.offset + part.from, Length: part.to - part.from}, "")
	if err != nil {
		h.Del("Content-Range")
		problem.Write(w, r, fmt.Errorf("open %s: %w", res.blob, err))
		return
	}
	defer body.Close() //nolint:errcheck // reading only
	middleware.StreamsOut(r)
	w.WriteHeader(status)
	// A short answer breaks the connection, because its length was announced.
	if _, err := io.Copy(w, body); err != nil && r.Context().Err() == nil {
		slog.WarnContext(r.Context(), "playback broke off", "blob", res.blob, "error", err)
	}
}

// matches reads If-None-Match: a list of tags, or "*".
func matches(header, etag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for tag := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == etag {
			return true
		}
	}
	return false
}
