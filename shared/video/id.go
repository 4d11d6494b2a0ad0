package video

import (
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
)

// ID names a video: 26 characters of [a-z2-7], 130 random bits.
//
// It is the PartitionKey of the video's rows. Being random it spreads writes
// over every partition, so no write path is append-only (paper row T3).
type ID string

var idPattern = regexp.MustCompile(`^[a-z2-7]{26}$`)

// ErrInvalidID says that a string is not a video id.
var ErrInvalidID = errors.New("video id is not 26 characters of a-z and 2-7")

// NewID returns a random id.
func NewID() ID { return ID(strings.ToLower(rand.Text())) }

// ParseID checks s, which may come from a URL or a message, or returns ErrInvalidID.
func ParseID(s string) (ID, error) {
	if !idPattern.MatchString(s) {
		return "", ErrInvalidID
	}
	return ID(s), nil
}

// Containers. Names are completed with the stack's prefix by azstore. Package azq
// has two more.
const (
	SourcesContainer = "sources" // parts of uploads, and remuxed copies of uploads without an index
	MediaContainer   = "media"   // everything that workers make
)

// PartsPrefix is the start of the names, in SourcesContainer, of the parts of an upload:
// see package sourceparts.
func PartsPrefix(id ID) string { return string(id) + "/parts/" }

// CaptionsBlob is the name, in SourcesContainer, of captions as they were sent. sum
// is the SHA-256 of the bytes, in hex: other bytes have another name.
func CaptionsBlob(id ID, language, sum string) string {
	return string(id) + "/captions/" + language + "/" + sum
}

// Prefix is the start of the name of every blob of a video, in every container:
// deleting a video is deleting its prefix.
func Prefix(id ID) string { return string(id) + "/" }
