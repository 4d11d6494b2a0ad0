package video

import "github.com/cutroom/cutroom/shared/engine"

// Containers. Names are completed with the stack's prefix by azstore. Package azq
// has two more.
const (
	SourcesContainer = "sources" // parts of uploads, and remuxed copies of uploads without an index
	MediaContainer   = "media"   // everything that workers make
)

// PartsPrefix is the start of the names, in SourcesContainer, of the parts of an upload:
// see package sourceparts.
func PartsPrefix(id engine.ID) string { return string(id) + "/parts/" }

// CaptionsBlob is the name, in SourcesContainer, of captions as they were sent. sum
// is the SHA-256 of the bytes, in hex: other bytes have another name.
func CaptionsBlob(id engine.ID, language, sum string) string {
	return string(id) + "/captions/" + language + "/" + sum
}
