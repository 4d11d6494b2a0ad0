package azstorage

import (
	"context"
	"errors"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
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
// These are calls without an answer, 5xx, 408, 429, refused credentials (401 and
// 403) and a container, queue or table that is missing or being deleted. A
// missing blob or row and a conflict are no trouble: they are answers.
//
// A call that the caller's context ended is trouble too. A caller that ends contexts
// for reasons of its own looks at those first.
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
		return code == CodeContainerNotFound || code == CodeQueueNotFound || code == CodeTableNotFound
	case http.StatusConflict:
		return code == "ContainerBeingDeleted" || code == "QueueBeingDeleted" || code == "TableBeingDeleted"
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

// Unanswered marks err as the end of a call that brought no whole answer, such
// as a stream that broke. Calls that fail before their answer are marked
// already. The text of err stays as it is.
func Unanswered(s Service, err error) error { return &unansweredError{s, err} }

type unansweredError struct {
	service Service
	err     error
}

func (e *unansweredError) Error() string { return e.err.Error() }
func (e *unansweredError) Unwrap() error { return e.err }

type serviceKey struct{}

// marker notes in every request, and in every error without an answer, which
// service it was for.
type marker Service

// Do implements policy.Policy.
func (m marker) Do(req *policy.Request) (*http.Response, error) {
	ctx := context.WithValue(req.Raw().Context(), serviceKey{}, Service(m))
	resp, err := req.WithContext(ctx).Next()
	if err != nil {
		err = Unanswered(Service(m), err)
	}
	return resp, err
}
