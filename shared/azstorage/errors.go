package azstorage

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Storage codes that the application acts on. The services document many more:
// https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
const (
	CodeBlobAlreadyExists   = "BlobAlreadyExists"
	CodeBlobImmutable       = "BlobImmutableDueToPolicy"
	CodeBlobNotFound        = "BlobNotFound"
	CodeContainerExists     = "ContainerAlreadyExists"
	CodeContainerNotFound   = "ContainerNotFound"
	CodeEntityAlreadyExists = "EntityAlreadyExists"
	CodeInvalidRange        = "InvalidRange"
	CodeLeaseAlreadyPresent = "LeaseAlreadyPresent"
	CodeMd5Mismatch         = "Md5Mismatch"
	CodeMessageNotFound     = "MessageNotFound"
	CodeOperationTimedOut   = "OperationTimedOut"
	CodePopReceiptMismatch  = "PopReceiptMismatch"
	CodeQueueAlreadyExists  = "QueueAlreadyExists"
	CodeQueueNotFound       = "QueueNotFound"
	CodeResourceNotFound    = "ResourceNotFound"
	CodeTableAlreadyExists  = "TableAlreadyExists"
	CodeTableNotFound       = "TableNotFound"
)

// Describe returns the HTTP status and the storage code of an error, also of
// one inside a table batch, whose outer status is 202 (paper row Q15). The code
// may be empty: the service does not always send one. ok is false for errors
// that no service reply caused, such as a refused connection.
func Describe(err error) (status int, code string, ok bool) {
	var own interface{ StorageError() (int, string) }
	if errors.As(err, &own) {
		status, code = own.StorageError()
		return status, code, true
	}
	var reply *azcore.ResponseError
	if !errors.As(err, &reply) {
		return 0, "", false
	}
	if f, inside := BatchFailure(err); inside {
		return f.Status, f.Code, true
	}
	return reply.StatusCode, reply.ErrorCode, true
}

// Brief is the text of an error on one line, for people. Of what a service replied, which
// the SDK prints whole, it has the status and the code.
func Brief(err error) string {
	text := err.Error()
	for _, reply := range replies(err) {
		said := fmt.Sprintf("%d %s", reply.StatusCode, cmp.Or(reply.ErrorCode, http.StatusText(reply.StatusCode)))
		text = strings.ReplaceAll(text, reply.Error(), said)
	}
	return strings.Join(strings.Fields(text), " ")
}

// replies are all that services replied in the tree of an error.
func replies(err error) (all []*azcore.ResponseError) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *azcore.ResponseError:
		return append(all, e)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return replies(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, replies(inner)...)
		}
	}
	return all
}

// HasCode reports whether err carries one of the storage codes.
func HasCode(err error, codes ...string) bool {
	_, code, ok := Describe(err)
	return ok && slices.Contains(codes, code)
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
	return errors.Is(err, ErrTryTimeout) || errors.Is(err, ErrNoToken) || HasCode(err, CodeOperationTimedOut) ||
		hasStatus(err, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout)
}

func hasStatus(err error, want ...int) bool {
	status, _, ok := Describe(err)
	return ok && slices.Contains(want, status)
}
