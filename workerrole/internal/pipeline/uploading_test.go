package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/sourceparts/partstest"
	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// sent is an upload in parts, of which a test sends one after the other.
type sent struct {
	t       *testing.T
	blobs   *blobstore.Store
	id      video.ID
	layout  sourceparts.Layout
	content []byte
}

func newSent(t *testing.T, content []byte, partBytes int64) *sent {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), []string{video.SourcesContainer}, nil, nil); err != nil {
		t.Fatal(err)
	}
	return &sent{
		t: t, blobs: blobstore.New(account), id: video.NewID(), content: content,
		layout: sourceparts.Layout{Bytes: int64(len(content)), PartBytes: partBytes, Epoch: "e"},
	}
}

func (s *sent) put(n int) {
	s.t.Helper()
	r := s.layout.Range(n)
	_, err := s.blobs.Put(s.t.Context(), video.SourcesContainer, sourceparts.Name(s.id, s.layout, n),
		s.content[r.Offset:r.Offset+r.Length], blobstore.Options{IfNoneMatch: true})
	if err != nil {
		s.t.Error(err)
	}
}

// complete sends all parts but those that were sent, writes the manifest, and returns
// the video.
func (s *sent) complete(without ...int) video.Video {
	s.t.Helper()
	done := map[int]bool{}
	for _, n := range without {
		done[n] = true
	}
	for n := range s.layout.Count() {
		if !done[n] {
			s.put(n)
		}
	}
	held, err := sourceparts.Held(s.t.Context(), s.blobs, s.id, s.layout)
	if err != nil {
		s.t.Fatal(err)
	}
	etag, err := sourceparts.PutManifest(s.t.Context(), s.blobs, s.id, sourceparts.Manifest{Layout: s.layout, Parts: held})
	if err != nil {
		s.t.Fatal(err)
	}
	return video.Video{ID: s.id, SourceETag: etag, Upload: partstest.Upload(s.layout)}
}

func (s *sent) uploading(patience, next time.Duration) *source {
	s.t.Helper()
	began := time.Now()
	whole, err := openUploading(s.t.Context(), s.blobs, s.id, s.layout, partWaiter{patience: patience, next: next, moved: func() time.Time { return began }})
	if err != nil {
		s.t.Fatal(err)
	}
	return whole
}

// read reads from a byte on.
func read(ctx context.Context, whole *source, at, length int64) ([]byte, error) {
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
	whole, err := openUpload(t.Context(), s.blobs, v)
	if err != nil {
		t.Fatal(err)
	}
	source, err := whole.serve(t.Context())
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
	_, err = openUpload(t.Context(), s.blobs, v)
	if failure := new(video.Failure); !errors.As(err, &failure) || failure.Code != video.SourceChanged {
		t.Errorf("another manifest: %v", err)
	}
}

// A part that is replaced behind our back, which no key allows, is not read.
func TestReplacedPartIsRefused(t *testing.T) {
	t.Parallel()
	s := newSent(t, noise(1<<20), 400_000)
	whole, err := openUpload(t.Context(), s.blobs, s.complete())
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Repeat([]byte{7}, 400_000)
	if _, err := s.blobs.Put(t.Context(), video.SourcesContainer, sourceparts.Name(s.id, s.layout, 1), other, blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		_, err = read(t.Context(), whole, 0, s.layout.Bytes)
		if failure := new(video.Failure); !errors.As(err, &failure) || failure.Code != video.SourceChanged {
			t.Errorf("%s part: %v", what, err)
		}
	}
	refused("a replaced")
	if err := s.blobs.Delete(t.Context(), video.SourcesContainer, sourceparts.Name(s.id, s.layout, 1)); err != nil {
		t.Fatal(err)
	}
	refused("a removed")
}

// A read of a part that is on its way waits for it, and one whose part does not come
// names what is missing.
func TestGrowingSourceWaits(t *testing.T) {
	t.Parallel()
	s := newSent(t, noise(1<<20), 200_000) // six parts
	s.put(0)
	s.put(4)
	whole := s.uploading(30*time.Second, 0)
	type result struct {
		got []byte
		err error
	}
	done := make(chan result)
	go func() {
		got, err := read(t.Context(), whole, 100_000, 200_000)
		done <- result{got, err}
	}()
	s.put(1)
	if r := <-done; r.err != nil || !bytes.Equal(r.got, s.content[100_000:300_000]) {
		t.Errorf("%d bytes, %v", len(r.got), r.err)
	}
	if got := (&Work{source: whole}).used(); !strings.HasPrefix(string(got), "0-1 ") {
		t.Errorf("parts 0 and 1 were read: %q", got)
	}
	_, err := read(t.Context(), s.uploading(0, 0), 450_000, 1)
	if missing := new(NotYetError); !errors.As(err, &missing) || len(missing.Parts) != 2 || missing.Parts[0] != 2 || missing.Parts[1] != 3 {
		t.Errorf("parts 2 and 3 are missing: %v", err)
	}
}

// A reader without patience waits for the part that is sent next, and for no other.
func TestGrowingSourceWaitsForTheNextPart(t *testing.T) {
	t.Parallel()
	s := newSent(t, noise(1<<20), 200_000) // six parts
	s.put(0)
	whole := s.uploading(0, 30*time.Second)
	_, err := read(t.Context(), whole, 450_000, 1)
	if missing := new(NotYetError); !errors.As(err, &missing) || missing.Parts[0] != 2 {
		t.Errorf("part 2 is missing: %v", err)
	}
	opened := make(chan error)
	go func() {
		_, err := read(t.Context(), whole, 250_000, 1)
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("part 1 is not there, and was opened: %v", err)
	case <-time.After(2 * lookEvery):
	}
	s.put(1)
	if err := <-opened; err != nil {
		t.Error(err)
	}

	// All such waits together have an end, while parts go on coming.
	short := s.uploading(0, 8*lookEvery)
	for n := 2; ; n++ {
		if n == 5 {
			t.Fatal("it waited for every part")
		}
		var sending sync.WaitGroup
		sending.Go(func() {
			time.Sleep(5 * lookEvery)
			s.put(n)
		})
		_, err = read(t.Context(), short, int64(n)*200_000, 1)
		sending.Wait()
		if err != nil {
			break
		}
	}
	if missing := new(NotYetError); !errors.As(err, &missing) {
		t.Error(err)
	}
}

// A run whose read was refused fails with what is missing, whatever ffmpeg made of it;
// with all parts the same run works.
func TestRefusedReadFailsTheRun(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(film(t, "red")) // its index is at the end
	if err != nil {
		t.Fatal(err)
	}
	tool, err := ffmpeg.Open(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	s := newSent(t, content, int64(len(content)/4))
	s.put(0)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	source, err := s.uploading(0, 0).serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tool.Probe(ctx, source)
	if missing := new(NotYetError); !errors.As(err, &missing) {
		t.Fatalf("probe without the index: %v", err)
	}
	whole, err := openUpload(ctx, s.blobs, s.complete(0))
	if err != nil {
		t.Fatal(err)
	}
	if source, err = whole.serve(ctx); err != nil {
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
