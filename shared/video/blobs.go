package video

import "fmt"

// Containers. Names are completed with the stack's prefix by azstorage.
const (
	SourcesContainer = "sources" // uploads, and remuxed copies of uploads without an index
	MediaContainer   = "media"   // everything that workers make
	ClaimsContainer  = "claims"  // claim checks: payloads too large for a message (paper row Q9)
	ControlContainer = "control" // leases of elected duties
)

// SourceBlob is the name of the uploaded file in SourcesContainer.
func SourceBlob(id ID) string { return string(id) + "/source" }

// Prefix is the start of the name of every blob of a video, in every container:
// deleting a video is deleting its prefix.
func Prefix(id ID) string { return string(id) + "/" }

// AttemptPrefix is where one attempt of one step writes. Two attempts never
// share a name; only the attempt whose step row was committed is ever read, and
// the janitor removes the others.
func AttemptPrefix(id ID, generation int, step string, index int, attempt string) string {
	return fmt.Sprintf("%s/g%05d/%s/%05d/%s/", id, generation, step, index, attempt)
}
