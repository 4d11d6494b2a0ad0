package azqops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

const (
	maxBody       = 1 << 20       // of a request, in bytes
	maxVisibility = 7 * 24 * 3600 // seconds
)

// Handler answers as [Routes] says. Errors are RFC 9457 problems with a member code for
// programs, and pages of other origins may not ask for changes. It knows no users: put a
// check of who asks before it.
func Handler(client *azq.Client) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(refusing(answer, errCrossOrigin))
	return protection.Handler(Routes(client, answer))
}

// Routes is [Handler] for programs that have checks of their own and a way of their own
// to answer errors:
//
//	GET  /queues                               {"items": […]}, as [Queues]
//	GET  /queues/{queue}/messages?limit=       {"items": […]}, as [Peek]
//	POST /queues/{queue}/messages              a [NewItem]; 201, {"id": "…"}
//	POST /queues/{queue}/clear, pause, resume  204
//	POST /queues/{queue}/visibility?seconds=   204; 0 is what the program declares
//	GET  /poison?limit=&pageToken=             {"items": […], "nextPageToken": "…"}, as [azq.Client.ListPoison]
//	POST /poison/{id}/redrive                  202
func Routes(client *azq.Client, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", refusing(fail, errNoRoute))
	handle := func(pattern string, status int, do func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if body, err := do(r); err != nil {
				fail(w, r, err)
			} else {
				write(w, "application/json; charset=utf-8", status, body)
			}
		})
	}
	change := func(action string, do func(*http.Request, *azq.Queue) error) {
		handle("POST /queues/{queue}/"+action, http.StatusNoContent, func(r *http.Request) (any, error) {
			q, err := client.Find(r.PathValue("queue"))
			if err == nil {
				err = do(r, q)
			}
			return nil, err
		})
	}
	change("clear", func(r *http.Request, q *azq.Queue) error { return q.Clear(r.Context()) })
	change("pause", func(r *http.Request, q *azq.Queue) error { return q.Pause(r.Context()) })
	change("resume", func(r *http.Request, q *azq.Queue) error { return q.Resume(r.Context()) })
	change("visibility", func(r *http.Request, q *azq.Queue) error {
		seconds, err := number(r, "seconds", -1, 0, maxVisibility)
		if err != nil {
			return err
		}
		return q.SetVisibility(r.Context(), time.Duration(seconds)*time.Second)
	})
	handle("GET /queues", http.StatusOK, func(r *http.Request) (any, error) {
		queues, err := Queues(r.Context(), client)
		return list[Queue]{Items: queues}, err
	})
	handle("GET /queues/{queue}/messages", http.StatusOK, func(r *http.Request) (any, error) { return peek(r, client) })
	handle("POST /queues/{queue}/messages", http.StatusCreated, func(r *http.Request) (any, error) { return send(r, client) })
	handle("GET /poison", http.StatusOK, func(r *http.Request) (any, error) { return poison(r, client) })
	handle("POST /poison/{id}/redrive", http.StatusAccepted, func(r *http.Request) (any, error) {
		_, err := client.Redrive(r.Context(), r.PathValue("id"))
		return nil, err
	})
	return mux
}

// list is a page of a list.
type list[T any] struct {
	Items         []T    `json:"items"`
	NextPageToken string `json:"nextPageToken,omitempty"`
}

func peek(r *http.Request, client *azq.Client) (any, error) {
	limit, err := number(r, "limit", azq.MaxBatch, 1, azq.MaxBatch)
	if err != nil {
		return nil, err
	}
	seen, err := Peek(r.Context(), client, r.PathValue("queue"), limit)
	return list[Message]{Items: seen}, err
}

func poison(r *http.Request, client *azq.Client) (any, error) {
	limit, err := number(r, "limit", 20, 1, 100)
	if err != nil {
		return nil, err
	}
	found, next, err := client.ListPoison(r.Context(), limit, r.URL.Query().Get("pageToken"))
	return list[azq.Poisoned]{Items: append([]azq.Poisoned{}, found...), NextPageToken: next}, err
}

func send(r *http.Request, client *azq.Client) (any, error) {
	var work NewItem
	body := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&work); err != nil {
		return nil, fmt.Errorf("%w: read the body: %w", errInvalid, err)
	}
	id, err := Send(r.Context(), client, r.PathValue("queue"), work)
	return map[string]string{"id": id}, err
}

// number reads a query parameter from low to high.
func number(r *http.Request, name string, unset, low, high int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" && unset >= low {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%w: parameter %s is no number from %d to %d", errInvalid, name, low, high)
	}
	return n, nil
}

var (
	errInvalid     = errors.New("invalid request")
	errNoRoute     = errors.New("there is nothing at this address, or not with this method")
	errCrossOrigin = errors.New("a page of another origin may not do this")
)

// problems are the errors that say all there is to say. The codes are stable.
var problems = []struct {
	err    error
	status int
	code   string
}{
	{errNoRoute, http.StatusNotFound, "not_found"},
	{errCrossOrigin, http.StatusForbidden, "cross_origin"},
	{errInvalid, http.StatusBadRequest, "invalid_request"},
	{azq.ErrMalformed, http.StatusBadRequest, "invalid_request"},
	{tablestore.ErrToken, http.StatusBadRequest, "invalid_page_token"},
	{azq.ErrNoQueue, http.StatusNotFound, "queue_not_found"},
	{azq.ErrNoPoison, http.StatusNotFound, "poison_not_found"},
	{azq.ErrRedriving, http.StatusConflict, "state_conflict"},
}

func refusing(fail func(http.ResponseWriter, *http.Request, error), err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fail(w, r, err) })
}

// answer writes the problem that err stands for.
func answer(w http.ResponseWriter, r *http.Request, err error) {
	status, code, detail := http.StatusInternalServerError, "internal", "the log of the program has the reason"
	switch {
	case azq.IsMissing(err):
		status, code, detail = http.StatusNotFound, "queue_not_found", "the queue does not exist yet"
	case errors.Is(err, context.DeadlineExceeded), azstore.IsUnavailable(err):
		status, code, detail = http.StatusServiceUnavailable, "storage_unavailable", "storage is busy or away; try again soon"
		w.Header().Set("Retry-After", "2")
	}
	for _, p := range problems {
		if errors.Is(err, p.err) {
			status, code, detail = p.status, p.code, err.Error()
		}
	}
	if code == "internal" {
		slog.ErrorContext(r.Context(), "operation on queues failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	problem := map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail, "code": code}
	if _, storageCode, isStorage := azstore.Describe(err); isStorage {
		problem["storageErrorCode"] = storageCode
	}
	write(w, "application/problem+json", status, problem)
}

// write answers with a body as JSON, if there is one.
func write(w http.ResponseWriter, contentType string, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone; nothing to do
}
