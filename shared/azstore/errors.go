package azstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstore/internal/batch"
)

// Describe returns the HTTP status and the storage code of an error, also of one inside a
// table batch, whose outer status is 202 (paper row Q15). The service does not always send a
// code. ok is false for errors that no reply caused, such as a refused connection.
func Describe(err error) (status int, code string, ok bool) {
	reply, answered := errors.AsType[*azcore.ResponseError](err)
	if !answered {
		return 0, "", false
	}
	if f, inside := batch.Failure(reply); inside {
		return f.Status, f.Code, true
	}
	return reply.StatusCode, reply.ErrorCode, true
}

// Brief is the text of an error on one line, for people. Of what a service replied, which
// the SDK prints whole, it has the status and the code.
func Brief(err error) string {
	text := err.Error()
	if reply, answered := errors.AsType[*azcore.ResponseError](err); answered {
		status, code, _ := Describe(reply)
		text = strings.ReplaceAll(text, reply.Error(), fmt.Sprintf("%d %s", status, cmp.Or(code, http.StatusText(status))))
	}
	return strings.Join(strings.Fields(text), " ")
}

// HasCode reports whether err carries one of the storage codes, which the SDK has in its
// packages bloberror, queueerror and aztables.
func HasCode[Code ~string](err error, codes ...Code) bool {
	_, code, ok := Describe(err)
	return ok && slices.Contains(codes, Code(code))
}

// IsNotFound reports a missing account part, blob, row or message: status 404.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports that something exists already or is leased: status 409.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsPrecondition reports a stale ETag or lease: status 412.
func IsPrecondition(err error) bool { return hasStatus(err, http.StatusPreconditionFailed) }

// IsUnavailable reports that the service was busy or did not answer in time,
// still so after the retries: 503, 429, 504, its OperationTimedOut, which is a
// 500, ErrTryTimeout, or ErrNoToken. A partition that moves answers so (paper row T10).
func IsUnavailable(err error) bool {
	return errors.Is(err, ErrTryTimeout) || errors.Is(err, ErrNoToken) || HasCode(err, bloberror.OperationTimedOut) ||
		hasStatus(err, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout)
}

func hasStatus(err error, want ...int) bool {
	status, _, ok := Describe(err)
	return ok && slices.Contains(want, status)
}

// Service is one of the three services of an account. Each may fail alone.
type Service string

// The services.
const (
	Blobs  Service = "blob"
	Queues Service = "queue"
	Tables Service = "table"
)

// DependencyOf reports that err says nothing about the blob, the row or the message
// that the call was about: the service or the network on the way to it failed.
// These are calls without an answer, also because the caller's context ended, 5xx, 408, 429,
// refused credentials (401 and 403) and a container, queue or table that is missing or being
// deleted. A missing blob or row and a conflict are answers.
func DependencyOf(err error) (Service, bool) {
	if status, code, answered := Describe(err); answered {
		return serviceOf(err), troubleAnswer(status, code)
	}
	if silent, ok := errors.AsType[*unansweredError](err); ok {
		return silent.service, true
	}
	return "", false
}

func troubleAnswer(status int, code string) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotFound:
		return slices.Contains([]string{string(bloberror.ContainerNotFound), string(queueerror.QueueNotFound), string(aztables.TableNotFound)}, code)
	case http.StatusConflict:
		return strings.HasSuffix(code, "BeingDeleted")
	}
	return status >= http.StatusInternalServerError
}

// serviceOf returns which service answered.
func serviceOf(err error) Service {
	if reply, ok := errors.AsType[*azcore.ResponseError](err); ok && reply.RawResponse != nil && reply.RawResponse.Request != nil {
		if s, ok := reply.RawResponse.Request.Context().Value(serviceKey{}).(Service); ok {
			return s
		}
	}
	return Tables // only a transaction's answer stands alone
}

// unansweredError is the end of a call that brought no whole answer. It has the text of err,
// which may quote a signed URL, without signatures. A reader of blobs reads on after it, as
// after any net.Error.
type unansweredError struct {
	service Service
	err     error
}

func (e *unansweredError) Error() string   { return Redact(e.err.Error()) }
func (e *unansweredError) Unwrap() error   { return e.err }
func (e *unansweredError) Timeout() bool   { return errors.Is(e.err, ErrTryTimeout) }
func (e *unansweredError) Temporary() bool { return true }

// secret matches a signed URL's "sig", also percent-encoded inside of another URL, and the key
// of a connection string.
var secret = regexp.MustCompile(`(?i)(^|[^a-z])sig(?:=|%3d)[^&\s"'<>\\)]*|\bAccountKey=[^;\s"']*`)

// Redact returns text without the signatures of signed URLs and without account keys.
// Anyone who holds such a URL may use it.
func Redact(text string) string { return secret.ReplaceAllString(text, "${1}[secret removed]") }

// RedactAttr is a slog.HandlerOptions.ReplaceAttr that applies Redact to strings
// and errors.
func RedactAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(Redact(v))
	case error:
		a.Value = slog.StringValue(Redact(v.Error()))
	}
	return a
}
