package sourceparts

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
)

// Source is a row of blobs, its parts, that reads as one file. Its functions are safe for
// concurrent use.
type Source struct {
	Layout Layout
	// Open reads a range of a part, in the one version of the source.
	Open func(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error)
	// Has reports whether a part is there. nil: all are.
	Has func(part int) bool
	// Read says what was read of an upload that is going on; nil for a complete one.
	Read func() string
}

// Pinned returns a source of which the version of each part is known. Every request names
// it (If-Match), because the holder of the account's key can replace a blob after its
// content was verified: blobstore.ErrChanged.
func Pinned(blobs *blobstore.Store, l Layout, version func(part int) video.Blob) Source {
	return Source{Layout: l, Open: func(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error) {
		pinned := version(part)
		body, _, err := blobs.Open(ctx, video.SourcesContainer, pinned.Name, want, pinned.ETag)
		return body, err
	}}
}

// Committed reads the manifest of a complete upload, in the version that was verified. When
// that is gone it returns a *video.Failure, source_changed.
func Committed(ctx context.Context, blobs *blobstore.Store, v video.Video) (Manifest, error) {
	layout, _ := LayoutOf(v.Upload)
	manifest, err := ReadManifest(ctx, blobs, ManifestName(v.ID, layout.Epoch), v.SourceETag)
	if err != nil {
		return manifest, Changed(fmt.Errorf("look at the source: %w", err))
	}
	return manifest, nil
}

// Changed returns the permanent failure for a blob of a complete upload that has another
// version, or is gone: no later attempt would find it. Other errors stay as they are.
func Changed(err error) error {
	switch {
	case errors.Is(err, blobstore.ErrChanged):
		return video.Fail(video.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it as a new video.")
	case errors.Is(err, blobstore.ErrNotFound):
		return video.Fail(video.SourceChanged, "The uploaded file, or a part of it, was removed after it had been accepted. Upload it as a new video.")
	}
	return err
}
