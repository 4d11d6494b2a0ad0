// Package problem is the one place where an error becomes an answer: an RFC
// 9457 problem with a stable code, and the storage service's own code where
// storage caused it (paper row Q15).
//
// Next: webrole/internal/edge, which stands before every handler.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// ContentType of a problem (RFC 9457, section 3).
const ContentType = "application/problem+json"

// Stable codes. They never change their meaning; clients branch on them.
const (
	InvalidJSON       = "invalid_json"       // not JSON as we read it: syntax, duplicates, depth, UTF-8
	InvalidBody       = "invalid_body"       // JSON that does not fit the document
	InvalidParameter  = "invalid_parameter"  // a query, path or header value that does not fit the document
	InvalidID         = "invalid_id"         // not 26 characters of a-z and 2-7
	InvalidPageToken  = "invalid_page_token" // forged, damaged, or of another query
	InvalidChecksum   = "invalid_checksum"
	ChecksumMismatch  = "checksum_mismatch"
	SizeMismatch      = "size_mismatch"
	BodyIncomplete    = "body_incomplete"
	Unauthorized      = "unauthorized"
	Forbidden         = "forbidden" // signed in, and may not
	InvalidRedirect   = "invalid_redirect"
	IssuerAway        = "issuer_unavailable" // of the sign-in
	CrossOrigin       = "cross_origin"
	NotFound          = "not_found"
	MethodNotAllowed  = "method_not_allowed"
	RequestTimeout    = "request_timeout"
	IdempotencyMiss   = "idempotency_mismatch"
	StateConflict     = "state_conflict"
	UploadIncomplete  = "upload_incomplete"
	UploadConflict    = "upload_conflict"
	LengthRequired    = "length_required"
	PreconditionFail  = "precondition_failed"
	BodyTooLarge      = "body_too_large"
	FileTooLarge      = "file_too_large"
	UndecodableText   = "undecodable_text"
	UnsupportedType   = "unsupported_content_type"
	RangeUnsatisfied  = "range_not_satisfiable"
	HostNotAllowed    = "host_not_allowed"
	PreconditionNeed  = "precondition_required"
	RateLimited       = "rate_limited"
	TooBusy           = "too_busy" // no room for more work at the moment; nothing was done
	QuotaExceeded     = "quota_exceeded"
	Internal          = "internal"
	StorageBusy       = "storage_unavailable"
	MomentNotFound    = "moment_not_found" // no video shows the runner's finish
	NotYet            = "not_playable_yet"
	CaptionsNotReady  = "captions_not_ready"
	QueueNotFound     = "queue_not_found"
	PoisonNotFound    = "poison_not_found"
	LabAway           = "lab_unavailable"
	ClientClosed      = "client_closed_request"
	statusClientGone  = 499 // nobody reads it; it is for the log
	internalErrorText = "Something went wrong on our side. The request id leads to the reason in the log."
)

// Error is an error that knows its answer. Detail is for people: it holds no
// secret and no input that was not checked.
type Error struct {
	Status     int
	Code       string
	Detail     string
	RetryAfter int        // seconds; 0: no header
	Cause      error      // for the log
	Quota      *api.Quota // which one, of QuotaExceeded
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.Cause)
	}
	return e.Code + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Cause }

// retryAfter is what a client is told that comes at a bad moment, in seconds. Who
// knows better sets Error.RetryAfter.
const retryAfter = 2

// New returns an Error with a formatted detail. One that says "not now" (429,
// 503) always says when to come again.
func New(status int, code, format string, args ...any) *Error {
	e := &Error{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		e.RetryAfter = retryAfter
	}
	return e
}

// Is reports whether err is an Error with this code.
func Is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Because adds the cause, for the log.
func (e *Error) Because(cause error) *Error {
	e.Cause = cause
	return e
}

// Page writes an answer that shows a problem to people, or returns false and writes nothing.
type Page func(http.ResponseWriter, *http.Request, api.Problem) bool

type pageKey struct{}

// WithPage makes Write answer the requests of a context by a page.
func WithPage(ctx context.Context, page Page) context.Context {
	return context.WithValue(ctx, pageKey{}, page)
}

// Write answers with the problem that err stands for, as JSON or by a Page. Nothing may
// have been written before. Server errors are logged here, once.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	e, storageCode := from(err)
	if e.Code == ClientClosed && errors.Is(context.Cause(r.Context()), context.DeadlineExceeded) {
		e = away().Because(err) // the client waits: it was our own deadline that ended the work
	}
	body := api.Problem{
		Type: "about:blank", Title: title(e.Status), Status: e.Status, Detail: e.Detail, Code: e.Code, Quota: e.Quota,
	}
	if storageCode != "" {
		body.StorageErrorCode = &storageCode
	}
	requestID := w.Header().Get("X-Request-Id")
	if requestID != "" {
		body.RequestId = &requestID
	}
	if e.Status >= http.StatusInternalServerError {
		slog.ErrorContext(r.Context(), "request failed", "request", requestID, "method", r.Method, "path", r.URL.Path, "code", e.Code, "error", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	h.Del("Content-Length")
	h.Del("Content-Disposition")
	if e.Status == http.StatusRequestTimeout {
		h.Set("Connection", "close") // the rest of the body may still come
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", fmt.Sprint(e.RetryAfter))
	}
	if page, ok := r.Context().Value(pageKey{}).(Page); ok && page(w, r, body) {
		return
	}
	h.Set("Content-Type", ContentType)
	w.WriteHeader(e.Status)
	if r.Method == http.MethodHead {
		return
	}
	_ = json.NewEncoder(w).Encode(body) // the client is gone; nothing to do
}

func title(status int) string {
	if status == statusClientGone {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}
