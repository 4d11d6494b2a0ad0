package azuritetest_test

import (
	"net/http"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestCleanLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	mine, other := azuritetest.Account(t), azuritetest.Account(t)
	for _, a := range []*azstore.Account{mine, other} {
		if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"media"}, Queues: []string{"probe"}, Tables: []string{"videos"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := azuritetest.Clean(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Queue("probe").GetProperties(t.Context(), nil); !azstore.HasCode(err, "QueueNotFound") {
		t.Errorf("the cleaned queue: %v, want QueueNotFound", err)
	}
	if _, err := other.Queue("probe").GetProperties(t.Context(), nil); err != nil {
		t.Errorf("another test's queue: %v", err)
	}
}

func TestLostReplyIsApplied(t *testing.T) {
	t.Parallel()
	faults := &inject.Transport{Choose: inject.Once(inject.LostReply, 1, func(r *http.Request) bool { return r.Method == http.MethodPut })}
	a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Transport = faults })
	ctx := azstore.WithoutRetry(t.Context())
	if _, err := a.Container("media").Create(ctx, nil); err == nil {
		t.Fatal("the reply was not lost")
	}
	if _, err := a.Container("media").Create(ctx, nil); !azstore.HasCode(err, "ContainerAlreadyExists") {
		t.Errorf("the second try: %v, want ContainerAlreadyExists", err)
	}
	if faults.Fired() != 1 {
		t.Errorf("%d faults fired, want 1", faults.Fired())
	}
}
