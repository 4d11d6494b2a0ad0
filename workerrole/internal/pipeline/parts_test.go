package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// sent is an upload in parts, of which a test sends one after the other.
type sent struct {
	t       *testing.T
	blobs   *blobstore.Store
	id      engine.ID
	layout  sourceparts.Layout
	content []byte
}

func newSent(t *testing.T, content []byte, partBytes int64) *sent {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}); err != nil {
		t.Fatal(err)
	}
	return &sent{
		t: t, blobs: blobstore.New(account), id: engine.NewID(), content: content,
		layout: sourceparts.Layout{Bytes: int64(len(content)), PartBytes: partBytes, Epoch: "e"},
	}
}

func (s *sent) put(n int) {
	s.t.Helper()
	r := s.layout.Range(n)
	_, err := s.blobs.Put(s.t.Context(), engine.SourcesContainer, sourceparts.Name(s.id, s.layout, n),
		s.content[r.Offset:r.Offset+r.Length], blobstore.Options{IfNoneMatch: true})
	if err != nil {
		s.t.Error(err)
	}
}

// complete sends all parts, writes the manifest, and returns the video.
func (s *sent) complete() video.Video {
	s.t.Helper()
	for n := range s.layout.Count() {
		s.put(n)
	}
	held, err := sourceparts.Held(s.t.Context(), s.blobs, s.id, s.layout)
	if err != nil {
		s.t.Fatal(err)
	}
	etag, err := sourceparts.PutManifest(s.t.Context(), s.blobs, s.id, sourceparts.Manifest{Layout: s.layout, Parts: held})
	if err != nil {
		s.t.Fatal(err)
	}
	return video.Video{Meta: engine.Meta{ID: s.id, SourceETag: etag, Upload: partstest.Upload(s.layout)}}
}

// read reads from a byte on.
func read(ctx context.Context, whole sourceparts.Source, at, length int64) ([]byte, error) {
	r := newReadAhead(ctx, whole).reader()
	if _, err := r.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, length))
}

func noise(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i>>12 + i>>4)
	}
	return content
}

// A source in parts reads as the one file that it is, by a reader that jumps about in it and by
// one that reads it to its end; part and block of the reader need not fit.
func TestPartsReadAsOneFile(t *testing.T) {
	t.Parallel()
	s := newSent(t, noise(3<<20+4321), 300_000)
	v := s.complete()
	whole, err := sourceparts.Committed(t.Context(), s.blobs, v.Meta)
	if err != nil {
		t.Fatal(err)
	}
	source, err := serve(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 299_999, 300_000, 1 << 20, len(s.content) - 1} {
		got, err := get(t.Context(), source.URL, at, 700_000)
		if want := s.content[at:min(at+700_000, len(s.content))]; err != nil || !bytes.Equal(got, want) {
			t.Errorf("from byte %d: %d bytes, which differ from the %d of the source: %v", at, len(got), len(want), err)
		}
	}
	all, err := read(t.Context(), whole, 0, s.layout.Bytes)
	if err != nil || !bytes.Equal(all, s.content) {
		t.Errorf("all: %d bytes, %v", len(all), err)
	}
	v.SourceETag = `"0x1"`
	_, err = sourceparts.Committed(t.Context(), s.blobs, v.Meta)
	if failure := new(engine.Failure); !errors.As(err, &failure) || failure.Code != engine.SourceChanged {
		t.Errorf("another manifest: %v", err)
	}
}

// A part that is replaced behind our back, which no key allows, is not read.
func TestReplacedPartIsRefused(t *testing.T) {
	t.Parallel()
	s := newSent(t, noise(1<<20), 400_000)
	whole, err := sourceparts.Committed(t.Context(), s.blobs, s.complete().Meta)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Repeat([]byte{7}, 400_000)
	if _, err := s.blobs.Put(t.Context(), engine.SourcesContainer, sourceparts.Name(s.id, s.layout, 1), other, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		_, err = read(t.Context(), whole, 0, s.layout.Bytes)
		if failure := new(engine.Failure); !errors.As(err, &failure) || failure.Code != engine.SourceChanged {
			t.Errorf("%s part: %v", what, err)
		}
	}
	refused("a replaced")
	if _, err := s.blobs.Delete(t.Context(), engine.SourcesContainer, sourceparts.Name(s.id, s.layout, 1), ""); err != nil {
		t.Fatal(err)
	}
	refused("a removed")
}

// A run whose read was refused fails with that error, whatever ffmpeg made of it; with all
// parts the same run works.
func TestRefusedReadFailsTheRun(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(film(t, "red")) // its index is at the end
	if err != nil {
		t.Fatal(err)
	}
	held, err := sandbox.Open(sandbox.Try)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(t.Context(), held, "", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSent(t, content, int64(len(content)/4))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	whole, err := sourceparts.Committed(ctx, s.blobs, s.complete().Meta)
	if err != nil {
		t.Fatal(err)
	}
	refused, open := errors.New("not yet"), whole.Open
	whole.Open = func(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error) {
		if part > 0 {
			return nil, refused
		}
		return open(ctx, part, want)
	}
	source, err := serve(ctx, whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tool.Probe(ctx, source); !errors.Is(err, refused) {
		t.Fatalf("probe without the index: %v", err)
	}
	whole.Open = open
	if source, err = serve(ctx, whole); err != nil {
		t.Fatal(err)
	}
	info, err := tool.Probe(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := media.EncodeChunk(ctx, tool, source, plan, 0, t.TempDir()); err != nil {
		t.Fatal(err)
	}
}
