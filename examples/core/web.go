package core

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
)

// routes is what users and operators reach. There is no sign-in: every caller may do all of it,
// but no page of another origin.
func (s *Service[P]) routes() http.Handler {
	mux := http.NewServeMux()
	all, one := "/"+s.Table, "/"+s.Table+"/{id}"
	mux.Handle("POST "+all, handler(s.upload)) // ?name=; the body is the file
	mux.Handle("GET "+all, handler(s.page))    // ?pageToken=
	mux.Handle("GET "+one, handler(s.get))
	mux.Handle("GET "+one+"/{file}", handler(s.file))
	mux.Handle("DELETE "+one, s.changing(func(ctx context.Context, id engine.ID) (record, error) {
		return s.Subjects.Delete(ctx, id, "") // the tombstone: no list and no address finds it from now on
	}))
	mux.Handle("POST "+one+"/cancel", s.changing(s.Subjects.Cancel))
	mux.Handle("POST "+one+"/retry", s.changing(s.Subjects.Retry))
	mux.Handle("POST "+one+"/reprocess", s.changing(s.Subjects.Reprocess))

	mux.Handle("/ops/", http.StripPrefix("/ops", azqops.Handler(s.Queues)))
	mux.Handle("GET /ops/workers", handler(func(r *http.Request) (any, error) {
		found, err := s.living(r.Context())
		return map[string]any{"items": found}, err
	}))
	mux.Handle("POST /ops/poison/{id}/redrive", handler(func(r *http.Request) (any, error) {
		return nil, upkeep.Redrive(r.Context(), s.Subjects, s.Queues, r.PathValue("id"))
	}))
	mux.Handle("DELETE /ops/poison/{id}", handler(func(r *http.Request) (any, error) {
		return nil, s.Queues.DiscardPoison(r.Context(), r.PathValue("id"))
	}))
	return http.NewCrossOriginProtection().Handler(mux)
}

// errUpload says that the client is to send something else.
var errUpload = errors.New("the upload cannot be taken")

// upload takes a file in one request, with one part of it in memory at a time. Order: META, parts,
// manifest, then META with the promise of the first step. When this process dies in between, the
// reconciler removes the upload.
func (s *Service[P]) upload(r *http.Request) (any, error) {
	layout := sourceparts.Layout{Bytes: r.ContentLength, PartBytes: sourceparts.PartBytes, Epoch: rand.Text()}
	if layout.Check() != nil {
		most := sourceparts.MaxParts * layout.PartBytes
		return nil, fmt.Errorf("%w: send a Content-Length of 1 to %d bytes", errUpload, most)
	}
	subject := Document{
		Name: azstore.Storable(r.URL.Query().Get("name"), 200), ContentType: azstore.Storable(r.Header.Get("Content-Type"), 100),
		Meta: engine.Meta{
			ID: engine.NewID(), State: engine.AwaitingUpload, CreatedAt: engine.Now(), SizeBytes: layout.Bytes,
			Upload: &engine.Upload{Bytes: layout.Bytes, PartBytes: layout.PartBytes, Epoch: layout.Epoch},
		},
	}
	if s.Accept != nil {
		if err := s.Accept(subject); err != nil {
			return nil, fmt.Errorf("%w: %w", errUpload, err)
		}
	}
	if _, err := s.Subjects.Create(r.Context(), subject); err != nil {
		return nil, err
	}
	etag, err := s.store(r, subject.ID, layout)
	if err != nil {
		_, gone := s.Subjects.Delete(context.WithoutCancel(r.Context()), subject.ID, "")
		return nil, errors.Join(err, gone)
	}
	now, err := s.Subjects.Uploaded(r.Context(), subject.ID, layout.Epoch, etag)
	return shown(now.Subject), err
}

// store returns the version of the manifest.
func (s *Service[P]) store(r *http.Request, id engine.ID, layout sourceparts.Layout) (etag string, _ error) {
	manifest := sourceparts.Manifest{Layout: layout}
	buffer := make([]byte, layout.Range(0).Length)
	for n := range layout.Count() {
		content := buffer[:layout.Range(n).Length]
		if _, err := io.ReadFull(r.Body, content); err != nil {
			return "", fmt.Errorf("%w: %w", errUpload, err)
		}
		name := sourceparts.Name(id, layout, n)
		etag, err := s.Blobs.Put(r.Context(), engine.SourcesContainer, name, content, blobstore.Options{})
		if err != nil {
			return "", err
		}
		manifest.Parts = append(manifest.Parts, sourceparts.Part{Number: n, Bytes: int64(len(content)), ETag: etag})
	}
	return sourceparts.PutManifest(r.Context(), s.Blobs, id, manifest)
}

func (s *Service[P]) get(r *http.Request) (any, error) {
	subject, err := s.find(r)
	return shown(subject), err
}

func (s *Service[P]) file(r *http.Request) (any, error) {
	subject, err := s.find(r)
	for _, file := range shown(subject).Files {
		if file.Name == r.PathValue("file") {
			content, _, err := s.Blobs.Open(r.Context(), engine.MediaContainer, file.Blob, blobstore.Range{}, "")
			return content, err
		}
	}
	if err == nil {
		err = engine.ErrNotFound
	}
	return nil, err
}

type record = engine.Record[Document]

// changing answers with the subject as a change leaves it.
func (s *Service[P]) changing(change func(context.Context, engine.ID) (record, error)) handler {
	return func(r *http.Request) (any, error) {
		subject, err := s.find(r)
		if err != nil {
			return nil, err
		}
		now, err := change(r.Context(), subject.ID)
		return shown(now.Subject), err
	}
}

func (s *Service[P]) find(r *http.Request) (Document, error) {
	id, err := engine.ParseID(r.PathValue("id"))
	if err != nil {
		return Document{}, engine.ErrNotFound
	}
	now, err := s.Subjects.Get(r.Context(), id)
	if err == nil && now.Meta().State.Gone() {
		err = engine.ErrNotFound
	}
	return now.Subject, err
}

// Shown is a subject as users see it.
type Shown struct {
	ID          engine.ID       `json:"id"`
	Name        string          `json:"name"`
	ContentType string          `json:"contentType"`
	Bytes       int64           `json:"bytes"`
	State       engine.State    `json:"state"`
	Error       *engine.Failure `json:"error,omitempty"`
	// Facts and Files are what steps left with the generation that serves, facts by step.
	Facts map[string]json.RawMessage `json:"facts"`
	Files []engine.File              `json:"files"`
}

func shown(d Document) Shown {
	now := Shown{
		ID: d.ID, Name: d.Name, ContentType: d.ContentType, Bytes: d.SizeBytes, State: d.State, Error: d.Error,
		Facts: map[string]json.RawMessage{}, Files: []engine.File{},
	}
	for _, made := range d.Made {
		if made.Generation != d.Serving {
			continue
		}
		if made.Facts != nil {
			now.Facts[made.Step] = made.Facts
		}
		now.Files = append(now.Files, made.Files...)
	}
	return now
}

// handler answers with what a function returns: a file, JSON of anything else, or nothing.
type handler func(r *http.Request) (any, error)

// refused are the errors that say what the client can do.
var refused = map[error]int{
	engine.ErrNotFound: http.StatusNotFound, blobstore.ErrNotFound: http.StatusNotFound, azq.ErrNoPoison: http.StatusNotFound,
	errUpload: http.StatusBadRequest, tablestore.ErrToken: http.StatusBadRequest,
	engine.ErrState: http.StatusConflict, azq.ErrRedriving: http.StatusConflict,
}

func (f handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := f(r)
	for known, status := range refused {
		if errors.Is(err, known) {
			http.Error(w, err.Error(), status)
			return
		}
	}
	if err != nil {
		slog.Error("request", "path", r.URL.Path, "error", err)
		http.Error(w, "storage does not answer as it should; try again", http.StatusServiceUnavailable)
		return
	}
	switch body := body.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case io.ReadCloser:
		_, _ = io.Copy(w, body) // net/http sees by the first bytes which kind it is
		_ = body.Close()
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
}
