package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
)

// NotYetError says that a run needs bytes of the source that have not arrived. It says
// nothing about the file: what the run made is thrown away, and the step is done again
// when they are there, at no cost.
type NotYetError struct {
	// Parts that are to be sent first: the one that was asked for and the missing ones
	// behind it, because what reads there goes on.
	Parts []int
}

func (e *NotYetError) Error() string {
	return fmt.Sprintf("part %d of the source has not arrived", e.Parts[0])
}

const (
	// mostWanted is how many parts one refusal asks for, and nextWanted when they come
	// next anyway: waiting for more would only delay the next try.
	mostWanted = 8
	nextWanted = 2
	// lookEvery is the pause between two looks for a part that is on its way.
	lookEvery = 250 * time.Millisecond
)

// inParts is a source in parts. Each part is read in one version: that of the manifest,
// or of an upload that is still going on the one that was seen first.
type inParts struct {
	blobs  *blobstore.Store
	id     video.ID
	layout sourceparts.Layout
	// grows says how long a read waits for a part: until nothing has moved for so long.
	// nil when all parts are there.
	grows *growth

	mu        sync.Mutex
	etags     map[int]string
	nextUntil time.Time // when waits for parts that come next are over; set by the first

	used *usedParts
}

// usedParts has the versions of the parts whose bytes were asked for. The sources of one
// attempt share it.
type usedParts struct {
	mu    sync.Mutex
	etags map[int]string
}

// note keeps a version that was read. Two versions of one part make a third text, which no
// manifest has, so that the difference is not forgotten.
func (u *usedParts) note(n int, etag string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was, seen := u.etags[n]; seen && was != etag {
		etag = was + " and " + etag
	}
	u.etags[n] = etag
}

func (u *usedParts) versions(epoch string) sourceparts.Versions {
	u.mu.Lock()
	defer u.mu.Unlock()
	return sourceparts.VersionsOf(epoch, u.etags)
}

type growth struct {
	patience time.Duration
	next     time.Duration    // how long it waits in all for parts that are sent next unasked
	moved    func() time.Time // when the run last made progress
}

// complete returns a source whose manifest is written.
func complete(ctx context.Context, blobs *blobstore.Store, from Pinned) (*inParts, error) {
	manifest, err := sourceparts.ReadManifest(ctx, blobs, from.Blob, from.ETag)
	if err != nil {
		return nil, changed(fmt.Errorf("look at the source: %w", err))
	}
	id, _, _ := strings.Cut(from.Blob, "/")
	return held(blobs, video.ID(id), manifest.Layout, manifest.Parts), nil
}

// growing returns a source that is still being sent.
func growing(ctx context.Context, blobs *blobstore.Store, id video.ID, layout sourceparts.Layout, grows growth) (*inParts, error) {
	parts, err := sourceparts.Held(ctx, blobs, id, layout)
	if err != nil {
		return nil, fmt.Errorf("look at the source: %w", err)
	}
	s := held(blobs, id, layout, parts)
	s.grows = &grows
	return s, nil
}

func held(blobs *blobstore.Store, id video.ID, layout sourceparts.Layout, parts []sourceparts.Part) *inParts {
	s := &inParts{blobs: blobs, id: id, layout: layout, etags: map[int]string{}, used: &usedParts{etags: map[int]string{}}}
	for _, p := range parts {
		s.etags[p.Number] = p.ETag
	}
	return s
}

func (s *inParts) size() int64 { return s.layout.Bytes }

func (s *inParts) there(at, length int64) bool {
	for n := s.layout.At(at); n <= s.layout.At(at+length-1); n++ {
		if s.version(n) == "" {
			return false
		}
	}
	return true
}

func (s *inParts) version(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.etags[n]
}

// open returns a reader that goes from part to part.
func (s *inParts) open(ctx context.Context, at, length int64) (io.ReadCloser, error) {
	r := &partsReader{ctx: ctx, source: s, at: at, end: at + length}
	return r, r.next()
}

// await returns the version of a part, and waits for the part when it is on its way.
func (s *inParts) await(ctx context.Context, n int) (etag string, _ error) {
	for began := time.Now(); ; {
		if etag := s.version(n); etag != "" {
			return etag, nil
		}
		if s.grows == nil {
			return "", fmt.Errorf("part %d of the source: %w", n, blobstore.ErrNotFound)
		}
		info, err := s.blobs.Head(ctx, video.SourcesContainer, sourceparts.Name(s.id, s.layout, n))
		switch {
		case err == nil && info.Size == s.layout.Range(n).Length:
			s.note(n, info.ETag)
			continue
		case err != nil && !errors.Is(err, blobstore.ErrNotFound):
			return "", err
		}
		last := began
		if moved := s.grows.moved(); moved.After(last) {
			last = moved
		}
		if time.Since(last) >= s.grows.patience && !s.waitsForNext(n) {
			return "", s.notYet(n)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// note keeps the version of a part that was seen. The first one stays.
func (s *inParts) note(n int, etag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etags[n] == "" {
		s.etags[n] = etag
	}
}

// waitsForNext reports whether part n comes next, and the time for such waits is not over.
// It is for all of them together: else a file without an index, which is read from its
// beginning, would hold a slot for as long as its upload lasts.
func (s *inParts) waitsForNext(n int) bool {
	if !s.comesNext(n) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextUntil.IsZero() {
		s.nextUntil = time.Now().Add(s.grows.next)
	}
	return time.Now().Before(s.nextUntil)
}

// comesNext reports whether all parts before n were seen.
func (s *inParts) comesNext(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for before := range n {
		if s.etags[before] == "" {
			return false
		}
	}
	return true
}

func (s *inParts) notYet(n int) error {
	missing, most := &NotYetError{}, mostWanted
	if s.comesNext(n) {
		most = nextWanted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; n < s.layout.Count() && s.etags[n] == "" && len(missing.Parts) < most; n++ {
		missing.Parts = append(missing.Parts, n)
	}
	return missing
}

// partsReader reads a run of bytes that may lie in several parts.
type partsReader struct {
	ctx     context.Context // of open: an io.Reader cannot be given one per call
	source  *inParts
	at, end int64
	body    io.ReadCloser // of a part; nil at the end
}

// next opens the part where the reader is.
func (r *partsReader) next() error {
	layout, n := r.source.layout, r.source.layout.At(r.at)
	etag, err := r.source.await(r.ctx, n)
	if err != nil {
		return err
	}
	r.source.used.note(n, etag)
	part := layout.Range(n)
	want := blobstore.Range{Offset: r.at - part.Offset, Length: min(r.end, part.Offset+part.Length) - r.at}
	r.body, _, err = r.source.blobs.Open(r.ctx, video.SourcesContainer, sourceparts.Name(r.source.id, layout, n), want, etag)
	return err
}

func (r *partsReader) Read(p []byte) (int, error) {
	for r.at < r.end {
		if r.body == nil {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p)
		r.at += int64(n)
		if errors.Is(err, io.EOF) {
			err, r.body = r.body.Close(), nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// Close implements io.Closer.
func (r *partsReader) Close() error {
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
