package sourceparts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
)

// manifestName ends the names of manifests. It is no number, so it is no part.
const manifestName = "manifest"

// ErrManifest says that a manifest cannot be read or does not fit its layout, or that a
// layout makes no sense: it was not made by this package.
var ErrManifest = errors.New("manifest of an upload is not readable")

// Manifest is the source of a video: all parts, each in the version that was checked.
type Manifest struct {
	Layout
	Parts []Part `json:"parts"` // all, ascending
}

// ManifestName is the name of the manifest in video.SourcesContainer.
func ManifestName(id video.ID, epoch string) string { return Prefix(id, epoch) + manifestName }

// Check returns ErrManifest when parts are missing or have not the length of their place.
func (m Manifest) Check() error {
	if err := m.Layout.Check(); err != nil {
		return err
	}
	if len(m.Parts) != m.Count() {
		return fmt.Errorf("%w: %d of %d parts", ErrManifest, len(m.Parts), m.Count())
	}
	for n, p := range m.Parts {
		if p.Number != n || p.Bytes != m.Range(n).Length || p.ETag == "" {
			return fmt.Errorf("%w: part %d", ErrManifest, n)
		}
	}
	return nil
}

// PutManifest writes the manifest of a complete upload and returns its ETag. It is
// written once: a second one with the same content is the first, and one with another
// content is refused with blobstore.ErrExists.
func PutManifest(ctx context.Context, blobs *blobstore.Store, id video.ID, m Manifest) (etag string, err error) {
	name := ManifestName(id, m.Epoch)
	if err := m.Check(); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	content, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	etag, err = blobs.Put(ctx, video.SourcesContainer, name, content,
		blobstore.Options{ContentType: "application/json", IfNoneMatch: true})
	if !errors.Is(err, blobstore.ErrExists) {
		return etag, err
	}
	there, info, failed := blobs.GetVersion(ctx, video.SourcesContainer, name, "")
	if failed != nil {
		return "", failed
	}
	if !bytes.Equal(there, content) {
		return "", err
	}
	return info.ETag, nil
}

// ReadManifest reads one version of a manifest by its name. blobstore.ErrChanged when
// another version is there, blobstore.ErrNotFound, ErrManifest.
func ReadManifest(ctx context.Context, blobs *blobstore.Store, name, etag string) (Manifest, error) {
	content, _, err := blobs.GetVersion(ctx, video.SourcesContainer, name, etag)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w: %w", name, ErrManifest, err)
	}
	if err := m.Check(); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}

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
