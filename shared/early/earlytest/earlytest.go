// Package earlytest tells of the parts of an upload that have arrived, as the web role does:
// for tests of what is made while it is sent.
package earlytest

import (
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/early"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Sending is an upload of which work is begun early.
type Sending struct {
	*partstest.Sending

	t       testing.TB
	uploads *early.Uploads
}

// New returns the upload of a video that exists and is sent.
func New(t testing.TB, videos *videostore.Store, blobs *blobstore.Store, sent *partstest.Sending) *Sending {
	return &Sending{Sending: sent, t: t, uploads: early.New(videos, blobs)}
}

// Beginning sends the last part and so many of the first.
func (s *Sending) Beginning(head int) {
	s.t.Helper()
	for n := range head {
		s.Part(n)
	}
	s.Part(s.Layout.Count() - 1)
}

// Arrived tells of what is held, and sends what is wanted until nothing more is.
func (s *Sending) Arrived() video.Video {
	s.t.Helper()
	for {
		rec, err := s.uploads.Arrived(s.t.Context(), s.ID, s.Held())
		if err != nil {
			s.t.Fatal(err)
		}
		before := len(s.Sent)
		for _, n := range sourceparts.First(rec.Subject.Upload) {
			s.Part(n)
		}
		if len(s.Sent) == before {
			return rec.Subject
		}
	}
}

// NeedsEarlyGates skips the test if a declared gate is not Early: nothing is made before the last
// byte then. No step of ours is a gate, but a fork's may be.
func NeedsEarlyGates(t testing.TB) {
	t.Helper()
	for _, step := range workflow.Declaration.Steps {
		if step.Stage == engine.Gate && !step.Early {
			t.Skipf("gate %s waits for the whole upload", step.Name)
		}
	}
}
