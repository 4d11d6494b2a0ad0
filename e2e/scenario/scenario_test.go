package scenario_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/e2e/scenario"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azuritetest"
)

func TestMain(m *testing.M) {
	scenario.MaybeConsumer()
	azuritetest.Main(m)
}

// Q11, word for word; Q7: what was in flight in a crash reappears.
func TestThePapersScene(t *testing.T) {
	t.Parallel()
	var cfg azstorage.Config
	azuritetest.AccountWith(t, func(c *azstorage.Config) { cfg = *c }) // cleans up under this prefix
	var told bytes.Buffer
	got, err := scenario.Run(t.Context(), &told, cfg)
	t.Logf("the scene:\n%s", &told)
	if err != nil {
		t.Fatal(err)
	}
	if got.HiddenFor < scenario.Visibility || got.HiddenFor > 4*scenario.Visibility {
		t.Errorf("message 1 was hidden for %v, want %v and a little", got.HiddenFor, scenario.Visibility)
	}
	got.HiddenFor = 0
	want := scenario.Result{CrashedWith: "message 1", DoneByC2: []string{"message 2", "message 1"}, DequeueCount: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the scene (-want +got):\n%s", diff)
	}
	// The order of the paper's figure.
	at := 0
	for _, line := range []string{
		"P1     puts message 1", "P2     puts message 2", "C1     (process", "dequeues message 1", "C2     dequeues message 2",
		"C2     deletes message 2", "C1     crashes (SIGKILL)", "C2     dequeues message 1 (delivery number 2)", "C2     deletes message 1", "holds 0 messages",
	} {
		i := strings.Index(told.String()[at:], line)
		if i < 0 {
			t.Fatalf("%q is missing or out of order", line)
		}
		at += i
	}
}
