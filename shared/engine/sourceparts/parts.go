// Package sourceparts stores an upload as a series of blobs, its parts, and reads them as
// one file. Each part is a blob of its own, so it is whole and checked by MD5 as soon as
// it exists (paper row Q12), parts come in any order and from any device (Q14), and work
// can begin on those that are there. They are never assembled: when the last has come, a
// manifest names the version of each, and the manifest's ETag is the version of the
// source (engine.Meta.SourceETag).
//
// A part is written once. Clients create it with a key that cannot overwrite, the web
// role with If-None-Match, and nothing deletes a part of the right length but the purge
// of its subject. So a part that is held never changes.
package sourceparts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
)

// PartBytes is the length of the parts of new uploads, but for the last: 4 MiB. Work
// begins with the first and the last part, so short parts begin it early; long ones cost
// fewer requests.
const PartBytes = 4 << 20

// MaxParts bounds the parts of one upload: as many as one request lists.
const MaxParts = 5000

// KeyLife is how long the valet key of a part opens: long enough for some parts over a
// slow line, short enough to be worthless soon. Clients ask for another.
const KeyLife = 15 * time.Minute

// Layout says how a file is cut into parts.
type Layout struct {
	Bytes     int64  `json:"bytes"`     // of the whole file
	PartBytes int64  `json:"partBytes"` // of each part but the last
	Epoch     string `json:"epoch"`     // part of every name: parts of another epoch are another upload
}

// LayoutOf returns the layout of an upload, or false when it has none yet.
func LayoutOf(u *engine.Upload) (Layout, bool) {
	if u == nil {
		return Layout{}, false
	}
	return Layout{Bytes: u.Bytes, PartBytes: u.PartBytes, Epoch: u.Epoch}, true
}

// Check returns an error when a layout makes no sense: it was not made by this package.
func (l Layout) Check() error {
	if l.Bytes <= 0 || l.PartBytes <= 0 || l.Epoch == "" || strings.Contains(l.Epoch, "/") || (l.Bytes-1)/l.PartBytes >= MaxParts {
		return fmt.Errorf("%d bytes in parts of %d, epoch %q, are no upload", l.Bytes, l.PartBytes, l.Epoch)
	}
	return nil
}

// Count is how many parts the file has. They are numbered from 0.
func (l Layout) Count() int { return int((l.Bytes + l.PartBytes - 1) / l.PartBytes) }

// Range is where part n lies in the file, in bytes.
func (l Layout) Range(n int) blobstore.Range {
	at := int64(n) * l.PartBytes
	return blobstore.Range{Offset: at, Length: min(l.PartBytes, l.Bytes-at)}
}

// At is the part that has the byte at offset.
func (l Layout) At(offset int64) int { return int(offset / l.PartBytes) }

// Prefix is the start of the names, in engine.SourcesContainer, of all blobs of one epoch.
func Prefix(id engine.ID, epoch string) string { return PrefixOfAll(id) + epoch + "/" }

// PrefixOfAll is the start of the names, in engine.SourcesContainer, of the parts of all uploads
// of a subject.
func PrefixOfAll(id engine.ID) string { return engine.Prefix(id) + "parts/" }

// Name is the name of part n in engine.SourcesContainer.
func Name(id engine.ID, l Layout, n int) string {
	return Prefix(id, l.Epoch) + fmt.Sprintf("%05d", n)
}

// Part is one part that is held.
type Part struct {
	Number int    `json:"number"`
	Bytes  int64  `json:"bytes"`
	ETag   string `json:"etag"` // of its blob
	MD5    []byte `json:"md5"`  // 16 bytes, as the writer said; empty when it did not
}

// Held lists the whole parts that are there of an upload, ascending: one request. It removes
// blobs under a part's name that have not its length: a key bounds none, and such a blob can
// be neither used nor replaced. Safe to repeat.
func Held(ctx context.Context, blobs *blobstore.Store, id engine.ID, l Layout) (held []Part, _ error) {
	if err := l.Check(); err != nil {
		return nil, fmt.Errorf("list parts of %s: %w", id, err)
	}
	start := Prefix(id, l.Epoch)
	for info, err := range blobs.List(ctx, engine.SourcesContainer, start) {
		if err != nil {
			return nil, fmt.Errorf("list parts of %s: %w", id, err)
		}
		n, err := strconv.Atoi(strings.TrimPrefix(info.Name, start))
		switch {
		case err != nil || n < 0 || n >= l.Count() || Name(id, l, n) != info.Name: // the manifest
		case info.Size != l.Range(n).Length:
			_, err := blobs.Delete(ctx, engine.SourcesContainer, info.Name, info.ETag)
			if err != nil && !errors.Is(err, blobstore.ErrChanged) {
				return nil, fmt.Errorf("remove a part of %s that has a wrong length: %w", id, err)
			}
		default:
			held = append(held, Part{Number: n, Bytes: info.Size, ETag: info.ETag, MD5: info.MD5})
		}
	}
	return held, nil
}

// Head is how many parts are held from the first on without a gap. held ascends.
func Head(held []Part) int {
	n := 0
	for n < len(held) && held[n].Number == n {
		n++
	}
	return n
}

// First are the parts that the first step waits for, in the order in which to send them: the
// first and the last ones of an upload that has a layout, and those that the step missed. The
// last seconds are rarely in the last part alone, and asking for more takes a second.
func First(u *engine.Upload) []int {
	layout, _ := LayoutOf(u)
	last := layout.Count() - 1
	first := []int{0, last}
	if !u.Started {
		first = append(first, max(0, last-1))
	}
	return append(first, u.PriorityParts...)
}

// manifestName ends the names of manifests. It is no number, so it is no part.
const manifestName = "manifest"

// Manifest is the source of a subject: all parts, each in the version that was checked.
type Manifest struct {
	Layout
	Parts []Part `json:"parts"` // all, ascending
}

// ManifestName is the name of the manifest in engine.SourcesContainer.
func ManifestName(id engine.ID, epoch string) string { return Prefix(id, epoch) + manifestName }

// Check returns an error when parts are missing or have not the length of their place.
func (m Manifest) Check() error {
	if err := m.Layout.Check(); err != nil {
		return err
	}
	if len(m.Parts) != m.Count() {
		return fmt.Errorf("manifest with %d of %d parts", len(m.Parts), m.Count())
	}
	for n, p := range m.Parts {
		if p.Number != n || p.Bytes != m.Range(n).Length || p.ETag == "" {
			return fmt.Errorf("manifest with a wrong part %d", n)
		}
	}
	return nil
}

// PutManifest writes the manifest of a complete upload and returns its ETag. It is
// written once: a second one with the same content is the first, and one with another
// content is refused with blobstore.ErrExists.
func PutManifest(ctx context.Context, blobs *blobstore.Store, id engine.ID, m Manifest) (etag string, err error) {
	name := ManifestName(id, m.Epoch)
	if err := m.Check(); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	content, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	etag, err = blobs.Put(ctx, engine.SourcesContainer, name, content,
		blobstore.Options{ContentType: "application/json", IfNoneMatch: true})
	if !errors.Is(err, blobstore.ErrExists) {
		return etag, err
	}
	there, info, failed := blobs.GetVersion(ctx, engine.SourcesContainer, name, "")
	if failed != nil {
		return "", failed
	}
	if !bytes.Equal(there, content) {
		return "", err
	}
	return info.ETag, nil
}

// ReadManifest reads one version of a manifest by its name. blobstore.ErrChanged when
// another version is there, blobstore.ErrNotFound.
func ReadManifest(ctx context.Context, blobs *blobstore.Store, name, etag string) (Manifest, error) {
	content, _, err := blobs.GetVersion(ctx, engine.SourcesContainer, name, etag)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	err = json.Unmarshal(content, &m)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
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
}

// Pinned returns a source of which the version of each part is known. Every request names
// it (If-Match), because the holder of the account's key can replace a blob after its
// content was verified: blobstore.ErrChanged.
func Pinned(blobs *blobstore.Store, l Layout, version func(part int) engine.Blob) Source {
	return Source{Layout: l, Open: func(ctx context.Context, part int, want blobstore.Range) (io.ReadCloser, error) {
		pinned := version(part)
		body, _, err := blobs.Open(ctx, engine.SourcesContainer, pinned.Name, want, pinned.ETag)
		return body, err
	}}
}

// Committed opens a complete upload, each part in the version that was verified. When its
// manifest is gone it returns a *engine.Failure, source_changed. Give errors of reads to Changed.
func Committed(ctx context.Context, blobs *blobstore.Store, m engine.Meta) (Source, error) {
	layout, _ := LayoutOf(m.Upload)
	manifest, err := ReadManifest(ctx, blobs, ManifestName(m.ID, layout.Epoch), m.SourceETag)
	if err != nil {
		return Source{}, Changed(fmt.Errorf("look at the source: %w", err))
	}
	return Pinned(blobs, manifest.Layout, func(part int) engine.Blob {
		return engine.Blob{Name: Name(m.ID, manifest.Layout, part), ETag: manifest.Parts[part].ETag}
	}), nil
}

// Changed returns the permanent failure for a blob of a complete upload that has another
// version, or is gone: no later attempt would find it. Other errors stay as they are.
func Changed(err error) error {
	switch {
	case errors.Is(err, blobstore.ErrChanged):
		return engine.Fail(engine.SourceChanged, "The uploaded file was replaced after it had been accepted. Upload it anew.")
	case errors.Is(err, blobstore.ErrNotFound):
		return engine.Fail(engine.SourceChanged, "The uploaded file, or a part of it, was removed after it had been accepted. Upload it anew.")
	}
	return err
}
