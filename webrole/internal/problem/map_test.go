package problem

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

// reply is an error of the service.
func reply(status int, code string) error {
	return &azcore.ResponseError{StatusCode: status, ErrorCode: code}
}

// Storage that is away is no fault of ours: 503 with a Retry-After, whatever way
// it says so (T10). Its other 500s are.
func TestStorageThatIsAwayIs503(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		reply(503, "ServerBusy"):        503,
		reply(500, "OperationTimedOut"): 503,
		azstore.ErrTryTimeout:           503,
		reply(500, "InternalError"):     500,
	} {
		got := answer(t.Context(), fmt.Errorf("read row: %w", err))
		if got.Code.Status != want || want == 503 && (got.Code != StorageBusy || got.RetryAfter == 0) {
			t.Errorf("%v: %+v, want %d", err, got, want)
		}
	}
}

// A client that is told "not now" is told when to come again, whatever the reason; and
// a request that our own deadline ended was not given up by its client.
func TestNotNowSaysWhen(t *testing.T) {
	t.Parallel()
	notNow := 0
	for _, err := range []error{
		reply(503, "ServerBusy"), reply(500, "OperationTimedOut"), reply(429, "TooManyRequests"), reply(504, ""), azstore.ErrTryTimeout,
		context.DeadlineExceeded, context.Canceled,
		&net.OpError{Op: "dial", Err: errors.New("refused")},
		New(TooBusy, "full"), New(RateLimited, "often"),
		New(StorageBusy, "away"),
		engine.ErrNotFound, engine.ErrChanged, engine.ErrState, blobstore.ErrNotFound, engine.ErrInvalidID,
		tablestore.ErrToken, &http.MaxBytesError{Limit: 1}, errors.New("anything else"),
	} {
		for _, late := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			if late {
				cancel(context.DeadlineExceeded)
			}
			w := httptest.NewRecorder()
			Write(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), fmt.Errorf("wrapped: %w", err))
			cancel(nil)
			if w.Code != http.StatusTooManyRequests && w.Code != http.StatusServiceUnavailable {
				if late && errors.Is(err, context.Canceled) {
					t.Errorf("%v after our deadline: %d", err, w.Code)
				}
				continue
			}
			notNow++
			if seconds, _ := strconv.Atoi(w.Header().Get("Retry-After")); seconds < 1 {
				t.Errorf("%v: %d with Retry-After %q", err, w.Code, w.Header().Get("Retry-After"))
			}
		}
	}
	if notNow < 20 {
		t.Errorf("only %d answers said when to come again", notNow)
	}
}
