package azstorage

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
)

// Describe returns the HTTP status and the storage code of an error, also of
// one inside a table batch, whose outer status is 202 (paper row Q15). The code
// may be empty: the service does not always send one. ok is false for errors
// that no service reply caused, such as a refused connection.
func Describe(err error) (status int, code string, ok bool) {
	var reply *azcore.ResponseError
	if !errors.As(err, &reply) {
		return 0, "", false
	}
	if f, inside := BatchFailure(reply); inside {
		return f.Status, f.Code, true
	}
	return reply.StatusCode, reply.ErrorCode, true
}

// Brief is the text of an error on one line, for people. Of what a service replied, which
// the SDK prints whole, it has the status and the code.
func Brief(err error) string {
	text := err.Error()
	var reply *azcore.ResponseError
	if errors.As(err, &reply) {
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
