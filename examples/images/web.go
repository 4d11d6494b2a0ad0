package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
)

// routes is what users reach. There is no sign-in: every caller may do all of it.
func (p *product) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /images", handler(p.upload)) // ?name=; the body is the file
	mux.Handle("GET /images", handler(p.page))    // ?after=
	mux.Handle("GET /images/{id}", handler(p.get))
	mux.Handle("GET /images/{id}/{file}", handler(p.file))
	mux.Handle("DELETE /images/{id}", handler(p.delete))
	return mux
}

// errUpload says that the client is to send something else.
var errUpload = errors.New("the upload cannot be taken")

// upload takes a file in one request, with one part of it in memory at a time. Order: META, parts,
// manifest, then META with the promise of the first step. When this process dies in between, the
// reconciler removes the upload.
func (p *product) upload(r *http.Request) (any, error) {
	layout := sourceparts.Layout{Bytes: r.ContentLength, PartBytes: sourceparts.PartBytes, Epoch: rand.Text()}
	if layout.Check() != nil {
		most := sourceparts.MaxParts * layout.PartBytes
		return nil, fmt.Errorf("%w: send a Content-Length of 1 to %d bytes", errUpload, most)
	}
	image := Image{Name: azstore.Storable(r.URL.Query().Get("name"), 200), Meta: engine.Meta{
		ID: engine.NewID(), State: engine.AwaitingUpload, CreatedAt: engine.Now(),
		Upload: &engine.Upload{Bytes: layout.Bytes, PartBytes: layout.PartBytes, Epoch: layout.Epoch},
	}}
	if _, err := p.images.Create(r.Context(), image); err != nil {
		return nil, err
	}
	etag, err := p.store(r, image.ID, layout)
	if err != nil {
		_, gone := p.images.Delete(context.WithoutCancel(r.Context()), image.ID, "")
		return nil, errors.Join(err, gone)
	}
	now, err := p.images.Uploaded(r.Context(), image.ID, layout.Epoch, etag)
	return shown(now.Subject), err
}

// store returns the version of the manifest.
func (p *product) store(r *http.Request, id engine.ID, layout sourceparts.Layout) (etag string, _ error) {
	manifest := sourceparts.Manifest{Layout: layout}
	buffer := make([]byte, layout.Range(0).Length)
	for n := range layout.Count() {
		content := buffer[:layout.Range(n).Length]
		if _, err := io.ReadFull(r.Body, content); err != nil {
			return "", fmt.Errorf("%w: %w", errUpload, err)
		}
		name := sourceparts.Name(id, layout, n)
		etag, err := p.blobs.Put(r.Context(), engine.SourcesContainer, name, content, blobstore.Options{})
		if err != nil {
			return "", err
		}
		manifest.Parts = append(manifest.Parts, sourceparts.Part{Number: n, Bytes: int64(len(content)), ETag: etag})
	}
	return sourceparts.PutManifest(r.Context(), p.blobs, id, manifest)
}

func (p *product) get(r *http.Request) (any, error) {
	image, err := p.find(r)
	return shown(image), err
}

// delete sets the tombstone, after which no list and no address finds the image, and promises the purge.
func (p *product) delete(r *http.Request) (any, error) {
	image, err := p.find(r)
	if err == nil {
		_, err = p.images.Delete(r.Context(), image.ID, "")
	}
	return struct{}{}, err
}

func (p *product) file(r *http.Request) (any, error) {
	image, err := p.find(r)
	for _, file := range served(image) {
		if file.Name == r.PathValue("file") {
			content, _, err := p.blobs.Open(r.Context(), engine.MediaContainer, file.Blob, blobstore.Range{}, "")
			return content, err
		}
	}
	if err == nil {
		err = engine.ErrNotFound
	}
	return nil, err
}

func (p *product) find(r *http.Request) (Image, error) {
	id, err := engine.ParseID(r.PathValue("id"))
	if err != nil {
		return Image{}, engine.ErrNotFound
	}
	now, err := p.images.Get(r.Context(), id)
	if err == nil && now.Meta().State.Gone() {
		err = engine.ErrNotFound
	}
	return now.Subject, err
}

// served are the files of the generation that serves.
func served(image Image) []engine.File {
	made, _ := image.MadeBy("finish", image.Serving)
	return made.Files
}

// shown is an image as users see it.
func shown(image Image) any {
	return map[string]any{
		"id": image.ID, "name": image.Name, "state": image.State, "error": image.Error,
		"width": image.Width, "height": image.Height, "files": served(image),
	}
}

// handler answers with what a function returns: a file, or JSON of anything else.
type handler func(r *http.Request) (any, error)

func (f handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := f(r)
	switch {
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, blobstore.ErrNotFound):
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, errUpload), errors.Is(err, tablestore.ErrToken):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		slog.Error("request", "path", r.URL.Path, "error", err)
		http.Error(w, "storage does not answer as it should; try again", http.StatusServiceUnavailable)
	default:
		if file, is := body.(io.ReadCloser); is {
			_, _ = io.Copy(w, file) // net/http sees by the first bytes which kind it is
			_ = file.Close()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
}
