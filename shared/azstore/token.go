package azstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// ErrNoToken says that the identity got no token, so the request was not sent. It is
// trouble of all three services at once, and IsUnavailable.
var ErrNoToken = errors.New("no token for the storage account")

// The SDK lets one request ask for a token and all others wait for it; when it fails, the next
// of them asks. Without these bounds a hundred requests would wait for a hundred failures.
const (
	tokenLimit   = 5 * time.Second // how long a token is waited for
	tokenFailure = time.Second     // how long a failure stands
)

// tokens bounds what a credential may cost, and names its failures ErrNoToken.
type tokens struct {
	credential azcore.TokenCredential
	failed     atomic.Pointer[tokenError] // the latest request for a token, or nil
}

// GetToken implements azcore.TokenCredential.
func (t *tokens) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if failed := t.failed.Load(); failed != nil && time.Now().Before(failed.until) {
		return azcore.AccessToken{}, failed
	}
	limited, cancel := context.WithTimeout(ctx, tokenLimit)
	defer cancel()
	token, err := t.credential.GetToken(limited, options)
	switch {
	case ctx.Err() != nil:
		return token, err // the caller went away, which says nothing about the identity
	case err == nil:
		t.failed.Store(nil)
		return token, nil
	}
	failed := &tokenError{cause: err, final: final(err), until: time.Now().Add(tokenFailure)}
	t.failed.Store(failed)
	return token, failed
}

// tokenError keeps the text of the cause and nothing else of it: the cause marks
// itself as not to be retried and may hold the answer of the identity endpoint, which
// would be taken for one of storage.
type tokenError struct {
	cause error
	final bool // asking again brings the same answer
	until time.Time
}

func (e *tokenError) Error() string        { return fmt.Sprintf("%v: %v", ErrNoToken, e.cause) }
func (e *tokenError) Is(target error) bool { return target == ErrNoToken }

// final reports whether the identity was refused, or there is none.
func final(err error) bool {
	refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if !ok {
		return !errors.Is(err, context.DeadlineExceeded) // nothing in the environment names an identity
	}
	if refused.RawResponse == nil {
		return false // the endpoint did not answer
	}
	status := refused.RawResponse.StatusCode
	passing := []int{404, 408, 410, 429} // as Azure's documentation of the endpoint has it
	return status >= 400 && status < 500 && !slices.Contains(passing, status)
}
