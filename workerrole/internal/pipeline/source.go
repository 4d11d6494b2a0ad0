package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// source is one version of an upload, or of its remuxed copy: a row of blobs, its parts,
// that reads as one file.
type source struct {
	blobs  *blobstore.Store
	layout sourceparts.Layout
	name   func(part int) string
	// missing waits for a part whose version is not known and returns the version. nil
	// when all parts are there.
	missing func(ctx context.Context, part int) (etag string, _ error)

	mu    sync.Mutex
	etags map[int]string // of the parts that are there
	read  map[int]string // of those that were read
}

// openUpload opens the parts of a complete upload. The holder of the account's key can
// replace a blob after its content was verified, so every request names the verified
// version (If-Match). When a blob has another one, the run fails with a *video.Failure,
// source_changed. Other errors of a read fail it with an ffmpeg.DependencyError.
func openUpload(ctx context.Context, blobs *blobstore.Store, v video.Video) (*source, error) {
	manifest, err := readManifest(ctx, blobs, v)
	if err != nil {
		return nil, err
	}
	return inParts(blobs, v.ID, manifest.Layout, manifest.Parts), nil
}

func readManifest(ctx context.Context, blobs *blobstore.Store, v video.Video) (sourceparts.Manifest, error) {
	layout, _ := sourceparts.LayoutOf(v.Upload)
	manifest, err := sourceparts.ReadManifest(ctx, blobs, sourceparts.ManifestName(v.ID, layout.Epoch), v.SourceETag)
	if err != nil {
		return manifest, changed(fmt.Errorf("look at the source: %w", err))
	}
	return manifest, nil
}

// openCopy opens a remuxed copy, with the errors of openUpload.
func openCopy(ctx context.Context, blobs *blobstore.Store, from video.Blob) (*source, error) {
	head, err := blobs.Head(ctx, video.SourcesContainer, from.Name)
	if err == nil && head.ETag != from.ETag {
		err = blobstore.ErrChanged
	}
	if err != nil {
		return nil, changed(fmt.Errorf("look at the copy of the source: %w", err))
	}
	return &source{
		blobs: blobs, layout: sourceparts.Layout{Bytes: head.Size, PartBytes: max(1, head.Size)},
		name:  func(int) string { return from.Name },
		etags: map[int]string{0: from.ETag}, read: map[int]string{},
	}, nil
}

func inParts(blobs *blobstore.Store, id video.ID, layout sourceparts.Layout, parts []sourceparts.Part) *source {
	s := &source{blobs: blobs, layout: layout, etags: map[int]string{}, read: map[int]string{}}
	s.name = func(part int) string { return sourceparts.Name(id, layout, part) }
	for _, p := range parts {
		s.etags[p.Number] = p.ETag
	}
	return s
}

// version is empty while a part has not arrived.
func (s *source) version(part int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.etags[part]
}

// open reads a range of a part, and waits for a part that is on its way.
func (s *source) open(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error) {
	etag, err := s.version(part), error(nil)
	if etag == "" {
		etag, err = s.missing(ctx, part)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.read[part] = etag
	s.mu.Unlock()
	body, _, err := s.blobs.Open(ctx, video.SourcesContainer, s.name(part), want, etag)
	return body, err
}

// serve lets ffmpeg read the source until ctx ends.
func (s *source) serve(ctx context.Context) (ffmpeg.Source, error) {
	ahead := newReadAhead(ctx, s)
	return ffmpeg.Serve(ctx, s.layout.Bytes, func() io.ReadSeeker { return ahead.reader() })
}

// changed returns the permanent failure for a blob of a complete upload that has another
// version, or is gone. No later attempt would find it.
func changed(err error) error {
	switch {
	case errors.Is(err, blobstore.ErrChanged):
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	case errors.Is(err, blobstore.ErrNotFound):
		return video.Fail(video.SourceChanged, "The uploaded file, or a part of it, was removed after it had been accepted. Upload it as a new video.")
	}
	return err
}
