package lab

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/cutroom/cutroom/e2e/client"
)

// base is where the web role mounts the lab; it passes paths on as they are.
const base = "/api/v1/lab"

// maxBody bounds a body, in bytes.
const maxBody = 16 << 10

// refusal is an error that knows its answer: an RFC 9457 problem.
type refusal struct {
	status       int
	code, detail string
}

func (r *refusal) Error() string { return r.code + ": " + r.detail }

func refuse(status int, code, format string, args ...any) error {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

// invalid refuses a body that does not fit docs/openapi.yaml.
func invalid(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "invalid_body", format, args...)
}

// conflict refuses what the state of the bench does not allow.
func conflict(format string, args ...any) error {
	return refuse(http.StatusConflict, "state_conflict", format, args...)
}

// further are the routes of what a fork may do without: scenes.go.
var further []func(*bench, *http.ServeMux)

func (b *bench) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, b.state()) })
	mux.HandleFunc("POST "+base+"/kill", action(b.kill))
	mux.HandleFunc("POST "+base+"/freeze", action(b.freeze))
	mux.HandleFunc("POST "+base+"/stop", action(b.stop))
	mux.HandleFunc("POST "+base+"/workers", action(b.change))
	mux.HandleFunc("POST "+base+"/storage", action(b.disturb))
	mux.HandleFunc("POST "+base+"/duplicate", action(b.duplicate))
	mux.HandleFunc("POST "+base+"/burst", action(b.upload))
	for _, add := range further {
		add(b, mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, refuse(http.StatusNotFound, "not_found", "There is nothing at this address."))
	})
	return b.guard(mux)
}

// guard refuses requests without the token, and all requests before the stack is up.
func (b *bench) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + b.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			fail(w, refuse(http.StatusUnauthorized, "unauthorized", "This needs the token that the web role has."))
			return
		}
		select {
		case <-b.ready:
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			fail(w, refuse(http.StatusServiceUnavailable, "lab_unavailable", "The stack is still starting."))
		}
	})
}

// action reads a body and answers what was begun. An empty body is an empty object.
func action[T any](do func(*http.Request, T) (client.LabDone, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked T
		err := read(w, r, &asked)
		var done client.LabDone
		if err == nil {
			done, err = do(r, asked)
		}
		if err != nil {
			fail(w, err)
			return
		}
		write(w, http.StatusAccepted, done)
	}
}

func read(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "body_too_large", "The body has more than %d bytes.", maxBody)
	case err != nil:
		return refuse(http.StatusBadRequest, "body_incomplete", "The body ended early.")
	case len(bytes.TrimSpace(body)) == 0:
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "unsupported_content_type", "The body must be application/json.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalid("%s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	if decoder.More() {
		return invalid("The body has more than one value.")
	}
	return nil
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client has gone; nothing to do
}

func fail(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		// It is the developer's own machine: the reason is no secret, and wanted.
		r = &refusal{http.StatusInternalServerError, "internal", err.Error()}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(client.Problem{Type: "about:blank", Title: http.StatusText(r.status), Status: r.status, Code: r.code, Detail: r.detail})
}
