package httpapi

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// The table service's ETag holds quotes and a time; ours is the same text in
// base64url between quotes, so that it is one opaque word in JSON and in headers.

func encodeETag(storage string) string {
	return `"` + base64.RawURLEncoding.EncodeToString([]byte(storage)) + `"`
}

// decodeIfMatch returns the storage ETag of an If-Match header, "" for "*". The
// quotes may be missing, as people paste them. What cannot be one of ours
// matches no version: 412, like a stale one.
func decodeIfMatch(header string) (string, error) {
	header = strings.TrimSpace(header)
	if header == "*" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Trim(strings.TrimPrefix(header, "W/"), `"`))
	if err != nil || len(raw) == 0 {
		return "", problem.New(http.StatusPreconditionFailed, problem.PreconditionFail, "If-Match is not a version of this.")
	}
	return string(raw), nil
}
