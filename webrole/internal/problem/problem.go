// Package problem is the one place where an error becomes an answer: an RFC
// 9457 problem with a stable code, and the storage service's own code where
// storage caused it (paper row Q15).
//
// Next: webrole/internal/middleware, which stands before every handler.
package problem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// ContentType of a problem (RFC 9457, section 3).
const ContentType = "application/problem+json"

// Code is what clients branch on; it never changes its meaning.
type Code struct {
	Name   string
	Status int // of the answer
}

// The codes that are no feature's. Failures of a video have codes of their own.
var (
	InvalidJSON      = Code{"invalid_json", http.StatusBadRequest}       // not JSON as we read it: syntax, duplicates, UTF-8
	InvalidBody      = Code{"invalid_body", http.StatusBadRequest}       // JSON that does not fit the document
	InvalidParameter = Code{"invalid_parameter", http.StatusBadRequest}  // a query, path or header value that does not fit the document
	InvalidID        = Code{"invalid_id", http.StatusBadRequest}         // not 26 characters of a-z and 2-7
	InvalidPageToken = Code{"invalid_page_token", http.StatusBadRequest} // forged, damaged, or of another query
	InvalidChecksum  = Code{"invalid_checksum", http.StatusBadRequest}
	ChecksumMismatch = Code{"checksum_mismatch", http.StatusBadRequest}
	SizeMismatch     = Code{"size_mismatch", http.StatusBadRequest}
	BodyIncomplete   = Code{"body_incomplete", http.StatusBadRequest}
	Unauthorized     = Code{"unauthorized", http.StatusUnauthorized}
	Forbidden        = Code{"forbidden", http.StatusForbidden} // signed in, and may not
	InvalidRedirect  = Code{"invalid_redirect", http.StatusBadRequest}
	CrossOrigin      = Code{"cross_origin", http.StatusForbidden}
	NotFound         = Code{"not_found", http.StatusNotFound}
	MethodNotAllowed = Code{"method_not_allowed", http.StatusMethodNotAllowed}
	RequestTimeout   = Code{"request_timeout", http.StatusRequestTimeout}
	IdempotencyMiss  = Code{"idempotency_mismatch", http.StatusConflict}
	StateConflict    = Code{"state_conflict", http.StatusConflict}
	UploadIncomplete = Code{"upload_incomplete", http.StatusConflict}
	UploadConflict   = Code{"upload_conflict", http.StatusConflict}
	LengthRequired   = Code{"length_required", http.StatusLengthRequired}
	PreconditionFail = Code{"precondition_failed", http.StatusPreconditionFailed}
	BodyTooLarge     = Code{"body_too_large", http.StatusRequestEntityTooLarge}
	FileTooLarge     = Code{"file_too_large", http.StatusRequestEntityTooLarge}
	UnsupportedType  = Code{"unsupported_content_type", http.StatusUnsupportedMediaType}
	RangeUnsatisfied = Code{"range_not_satisfiable", http.StatusRequestedRangeNotSatisfiable}
	HostNotAllowed   = Code{"host_not_allowed", http.StatusMisdirectedRequest}
	PreconditionNeed = Code{"precondition_required", http.StatusPreconditionRequired}
	RateLimited      = Code{"rate_limited", http.StatusTooManyRequests}
	TooBusy          = Code{"too_busy", http.StatusTooManyRequests} // no room for more work at the moment; nothing was done
	Internal         = Code{"internal", http.StatusInternalServerError}
	StorageBusy      = Code{"storage_unavailable", http.StatusServiceUnavailable}
	NotYet           = Code{"not_playable_yet", http.StatusNotFound}
	QueueNotFound    = Code{"queue_not_found", http.StatusNotFound}
	PoisonNotFound   = Code{"poison_not_found", http.StatusNotFound}
	ClientClosed     = Code{"client_closed_request", 499} // for the log: the client does not read it
)

// Error is an error that knows its answer. Detail is for people: it holds no
// secret and no input that was not checked.
type Error struct {
	Code       Code
	Detail     string
	RetryAfter int                // seconds; 0: no header
	Cause      error              // for the log
	Members    func(*api.Problem) // adds those that a feature has; may be nil
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code.Name, e.Detail, e.Cause)
	}
	return e.Code.Name + ": " + e.Detail
}

func (e *Error) Unwrap() error { return e.Cause }

// retryAfter is what a client is told that comes at a bad moment, in seconds. Who
// knows better says After.
const retryAfter = 2

// New returns an Error with a formatted detail. One that says "not now" (429,
// 503) always says when to come again.
func New(code Code, format string, args ...any) *Error {
	e := &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
	if code.Status == http.StatusTooManyRequests || code.Status == http.StatusServiceUnavailable {
		e.RetryAfter = retryAfter
	}
	return e
}

// Because adds the cause, for the log.
func (e *Error) Because(cause error) *Error {
	e.Cause = cause
	return e
}

// After says when to come again, in seconds; 0: not at all.
func (e *Error) After(seconds int) *Error {
	e.RetryAfter = seconds
	return e
}

// Page writes an answer that shows a problem to people, or returns false and writes nothing.
type Page func(http.ResponseWriter, *http.Request, api.Problem) bool

type pageKey struct{}

// WithPage makes Write answer the requests of a context by a page.
func WithPage(ctx context.Context, page Page) context.Context {
	return context.WithValue(ctx, pageKey{}, page)
}

// Abort is Write for a handler of Gin, of which no further one runs.
func Abort(c *gin.Context, err error) {
	c.Abort()
	Write(c.Writer, c.Request, err)
}

// Write answers with the problem that err stands for, as JSON or by a Page. Nothing may
// have been written before. Server errors are logged here, once.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	e := answer(r.Context(), err)
	if e.Code == ClientClosed && errors.Is(context.Cause(r.Context()), context.DeadlineExceeded) {
		e = away().Because(err) // the client waits: it was our own deadline that ended the work
	}
	requestID := w.Header().Get("X-Request-Id")
	_, storageCode, _ := azstore.Describe(err) // if storage had a part in it
	body := api.Problem{
		Type: "about:blank", Title: cmp.Or(http.StatusText(e.Code.Status), "Client Closed Request"), Status: e.Code.Status, Detail: e.Detail, Code: e.Code.Name,
		StorageErrorCode: api.Some(storageCode), RequestId: api.Some(requestID),
	}
	if e.Members != nil {
		e.Members(&body)
	}
	if e.Code.Status >= http.StatusInternalServerError {
		slog.ErrorContext(r.Context(), "request failed", "request", requestID, "method", r.Method, "path", r.URL.Path, "code", e.Code.Name, "error", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	h.Del("Content-Length")
	h.Del("Content-Disposition")
	if e.Code.Status == http.StatusRequestTimeout {
		h.Set("Connection", "close") // the rest of the body may still come
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", fmt.Sprint(e.RetryAfter))
	}
	if page, ok := r.Context().Value(pageKey{}).(Page); ok && page(w, r, body) {
		return
	}
	h.Set("Content-Type", ContentType)
	w.WriteHeader(e.Code.Status)
	if r.Method == http.MethodHead {
		return
	}
	_ = json.NewEncoder(w).Encode(body) // the client is gone; nothing to do
}

// Answer finds the problem that an error stands for; nil if it is another error.
type Answer func(err error) *Error

// When is the Answer to an error that says all there is to say.
func When(is error, code Code, detail string) Answer {
	return func(err error) *Error {
		if errors.Is(err, is) {
			return New(code, "%s", detail)
		}
		return nil
	}
}

type answersKey struct{}

// WithAnswers makes Write ask the features for the answers to their errors, before its own.
func WithAnswers(answers []Answer) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), answersKey{}, answers))
	}
}

// Known reports whether an error stands for a problem of its own.
func Known(c *gin.Context, err error) bool { return answer(c.Request.Context(), err).Code != Internal }

var answers = []Answer{
	When(engine.ErrNotFound, NotFound, "There is no such video."),
	When(engine.ErrNoRun, NotFound, "Nothing was asked for by this name."),
	When(blobstore.ErrNotFound, NotFound, "There is no such file any more."),
	When(engine.ErrChanged, PreconditionFail, "The video was changed in the meantime. Read it again."),
	When(engine.ErrKeyUsed, IdempotencyMiss, "This Idempotency-Key was used with another body."),
	When(engine.ErrState, StateConflict, "The video is not in a state that allows this."),
	When(azq.ErrNoQueue, QueueNotFound, "There is no such queue."),
	When(azq.ErrNoPoison, PoisonNotFound, "There is no such poisoned item."),
	When(azq.ErrRedriving, StateConflict, "This item is being redriven, or a redrive of it was cut off. Look again in a minute."),
	When(engine.ErrInvalidID, InvalidID, "A video's id is 26 characters of a-z and 2-7."),
	When(tablestore.ErrToken, InvalidPageToken, "The page token is not one of this query. Start from the first page."),
	When(tablestore.ErrNotFound, NotFound, "There is no such row."),
	When(tablestore.ErrChanged, PreconditionFail, "The row was changed in the meantime."),
	When(context.Canceled, ClientClosed, "The client closed the connection."),
}

func answer(ctx context.Context, err error) *Error {
	var known *Error
	var failure *engine.Failure
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &failure):
		return New(Code{string(failure.Code), http.StatusUnsupportedMediaType}, "%s", failure.Detail)
	case errors.As(err, &tooLarge):
		return New(BodyTooLarge, "The body is larger than %d bytes.", tooLarge.Limit)
	case azq.IsMissing(err):
		return New(QueueNotFound, "The queue does not exist yet.")
	}
	ofFeatures, _ := ctx.Value(answersKey{}).([]Answer)
	for _, of := range slices.Concat(ofFeatures, answers) {
		if e := of(err); e != nil {
			return e
		}
	}
	var network net.Error // the service is away: the operator's trouble and no fault of the program
	if errors.Is(err, context.DeadlineExceeded) || azstore.IsUnavailable(err) || errors.As(err, &network) {
		return away()
	}
	return New(Internal, "Something went wrong on our side. The request id leads to the reason in the log.")
}

func away() *Error {
	return New(StorageBusy, "Storage is busy or away. Nothing is lost; try again soon.")
}
