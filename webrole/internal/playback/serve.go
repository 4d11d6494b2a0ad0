package playback

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// resource is a run of bytes of a blob, which is immutable, or a text.
type resource struct {
	web.File
	offset   int64
	cache    string
	filename string // set: the browser saves it
}

// etag is strong: blob names are unique to one attempt and never written twice.
func (res resource) etag() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", res.Blob, res.offset, res.Bytes))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

func (s *Service) send(c *gin.Context, res resource) error {
	r := c.Request
	c.Header("Cache-Control", res.cache)
	if res.Blob == "" {
		c.Header("Content-Length", strconv.Itoa(len(res.Text)))
		c.Data(http.StatusOK, res.ContentType, []byte(res.Text))
		return nil
	}
	etag := res.etag()
	c.Header("ETag", etag)
	c.Header("Accept-Ranges", "bytes")
	if has := r.Header.Get("If-None-Match"); strings.TrimSpace(has) == "*" || strings.Contains(has, etag) {
		c.Status(http.StatusNotModified)
		return nil
	}
	header := r.Header.Get("Range")
	if cond := r.Header.Get("If-Range"); cond != "" && cond != etag {
		header = ""
	}
	part, partial, satisfiable := parseRange(header, res.Bytes)
	if !satisfiable {
		c.Header("Content-Range", fmt.Sprintf("bytes */%d", res.Bytes))
		return problem.New(problem.RangeUnsatisfied, "The range lies outside of the %d bytes there are.", res.Bytes)
	}
	body := io.NopCloser(strings.NewReader(""))
	if r.Method != http.MethodHead && part.to > part.from {
		var err error
		bytes := blobstore.Range{Offset: res.offset + part.from, Length: part.to - part.from}
		if body, _, err = s.blobs.Open(r.Context(), engine.MediaContainer, res.Blob, bytes, ""); err != nil {
			return fmt.Errorf("open %s: %w", res.Blob, err)
		}
	}
	defer body.Close() //nolint:errcheck // reading only
	c.Status(http.StatusOK)
	if partial {
		c.Status(http.StatusPartialContent)
		c.Header("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.to-1, res.Bytes))
	}
	c.Header("Content-Type", res.ContentType)
	c.Header("Content-Length", fmt.Sprint(part.to-part.from))
	if res.filename != "" {
		c.Header("Content-Disposition", res.filename)
	}
	middleware.StreamsOut(c)
	// A short answer breaks the connection, because its length was announced.
	if _, err := io.Copy(c.Writer, body); err != nil && r.Context().Err() == nil {
		slog.WarnContext(r.Context(), "playback broke off", "blob", res.Blob, "error", err)
	}
	return nil
}

// span is the half-open run of bytes [from, to).
type span struct{ from, to int64 }

// oneRange is a Range header that asks for one range of bytes.
var oneRange = regexp.MustCompile(`^bytes=\s*(\d*)-(\d*)\s*$`)

// parseRange reads a Range header against a resource of size bytes (RFC 9110,
// section 14). partial is false when the header is absent, malformed, of another
// unit or asks for several ranges: a server may ignore those and answer with the
// whole. satisfiable is false when the range lies outside: 416.
//
// http.ServeContent is not used: it asks a seeker, which cannot know where the range ends
// and would have storage send the rest of the blob; it sends its header before storage has
// answered, so a failure could not be a problem any more; and its 416 has no code.
func parseRange(header string, size int64) (s span, partial, satisfiable bool) {
	whole := span{0, size}
	asked := oneRange.FindStringSubmatch(header)
	if asked == nil {
		return whole, false, true
	}
	from, _ := strconv.ParseInt(asked[1], 10, 64) // too large a number is the largest
	end, _ := strconv.ParseInt(asked[2], 10, 64)
	switch {
	case asked[1] == "" && asked[2] == "", asked[1] != "" && asked[2] != "" && end < from:
		return whole, false, true
	case asked[1] == "": // the last bytes
		s = span{max(0, size-end), size}
	case asked[2] == "":
		s = span{from, size}
	default:
		s = span{from, min(end, size-1) + 1}
	}
	if s.from >= size {
		return whole, true, false
	}
	return s, true, true
}
