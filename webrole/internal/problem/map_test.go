package problem

import (
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// reply is an error as azstorage describes one of the service.
type reply struct {
	status int
	code   string
}

func (r reply) Error() string               { return r.code }
func (r reply) StorageError() (int, string) { return r.status, r.code }

// Storage that is away is no fault of ours: 503 with a Retry-After, whatever way
// it says so (T10). Its other 500s are.
func TestStorageThatIsAwayIs503(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		reply{503, "ServerBusy"}:        503,
		reply{500, "OperationTimedOut"}: 503,
		azstorage.ErrTryTimeout:         503,
		reply{500, "InternalError"}:     500,
	} {
		got, _ := from(fmt.Errorf("read row: %w", err))
		if got.Status != want || want == 503 && (got.Code != StorageBusy || got.RetryAfter == 0) {
			t.Errorf("%v: %+v, want %d", err, got, want)
		}
	}
}
