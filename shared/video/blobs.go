package video

import "github.com/cutroom/cutroom/shared/engine"

// CaptionsBlob is the name, in SourcesContainer, of captions as they were sent. sum
// is the SHA-256 of the bytes, in hex: other bytes have another name.
func CaptionsBlob(id engine.ID, language, sum string) string {
	return string(id) + "/captions/" + language + "/" + sum
}
