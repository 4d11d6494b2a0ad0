package azstorage

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
)

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
	var silent *unansweredError
	if errors.As(err, &silent) {
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
	var reply *azcore.ResponseError
	if errors.As(err, &reply) && reply.RawResponse != nil && reply.RawResponse.Request != nil {
		if s, ok := reply.RawResponse.Request.Context().Value(serviceKey{}).(Service); ok {
			return s
		}
	}
	return Tables // only a transaction's answer stands alone
}

// unansweredError is the end of a call that brought no whole answer. It has the text of err.
// A reader of blobs reads on after it, as after any net.Error.
type unansweredError struct {
	service Service
	err     error
}

func (e *unansweredError) Error() string   { return e.err.Error() }
func (e *unansweredError) Unwrap() error   { return e.err }
func (e *unansweredError) Timeout() bool   { return errors.Is(e.err, ErrTryTimeout) }
func (e *unansweredError) Temporary() bool { return true }
