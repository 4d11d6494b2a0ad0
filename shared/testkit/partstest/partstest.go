// Package partstest sends an upload in parts as the test wishes.
package partstest

import (
	"os"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// Sending is one upload. It belongs to the goroutine of its test, which ends with the
// first error.
type Sending struct {
	ID      engine.ID
	Layout  sourceparts.Layout
	Content []byte       // of the whole file
	Sent    map[int]bool // by number of the part

	t      testing.TB
	videos *videostore.Store
	blobs  *blobstore.Store
}

// Layout cuts a file into about so many parts.
func Layout(content []byte, parts int) sourceparts.Layout {
	return sourceparts.Layout{Bytes: int64(len(content)), PartBytes: int64(len(content)/parts + 1), Epoch: "e"}
}

// Upload is what META has of an upload with that layout.
func Upload(l sourceparts.Layout) *engine.Upload {
	return &engine.Upload{Bytes: l.Bytes, PartBytes: l.PartBytes, Epoch: l.Epoch}
}

// New returns the upload of a video that exists and has that layout (Upload).
func New(t testing.TB, videos *videostore.Store, blobs *blobstore.Store, id engine.ID, l sourceparts.Layout, content []byte) *Sending {
	return &Sending{ID: id, Layout: l, Content: content, Sent: map[int]bool{}, t: t, videos: videos, blobs: blobs}
}

// Begin fixes how a file is cut into parts for a video that waits for it, as the first
// request of an upload does.
func Begin(t testing.TB, videos *videostore.Store, blobs *blobstore.Store, id engine.ID, path string) *Sending {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := sourceparts.Layout{Bytes: int64(len(content)), PartBytes: sourceparts.PartBytes, Epoch: "e"}
	_, err = videos.Change(t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.Upload = Upload(l)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(t, videos, blobs, id, l, content)
}

// Part sends a part, unless it was sent.
func (s *Sending) Part(n int) {
	s.t.Helper()
	if s.Sent[n] {
		return
	}
	s.Sent[n] = true
	r := s.Layout.Range(n)
	_, err := s.blobs.Put(s.t.Context(), engine.SourcesContainer, sourceparts.Name(s.ID, s.Layout, n),
		s.Content[r.Offset:r.Offset+r.Length], blobstore.Options{IfNoneMatch: true})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Held are the parts that are there.
func (s *Sending) Held() []sourceparts.Part {
	s.t.Helper()
	held, err := sourceparts.Held(s.t.Context(), s.blobs, s.ID, s.Layout)
	if err != nil {
		s.t.Fatal(err)
	}
	return held
}

// Complete sends the rest, and says that it is all.
func (s *Sending) Complete() {
	s.t.Helper()
	if _, err := s.videos.Uploaded(s.t.Context(), s.ID, s.Layout.Epoch, s.Manifest()); err != nil {
		s.t.Fatal(err)
	}
}

// Manifest sends the rest, writes the manifest and returns its ETag.
func (s *Sending) Manifest() (etag string) {
	s.t.Helper()
	for n := range s.Layout.Count() {
		s.Part(n)
	}
	etag, err := sourceparts.PutManifest(s.t.Context(), s.blobs, s.ID, sourceparts.Manifest{Layout: s.Layout, Parts: s.Held()})
	if err != nil {
		s.t.Fatal(err)
	}
	return etag
}
