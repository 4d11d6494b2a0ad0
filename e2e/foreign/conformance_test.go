package foreign_test

import (
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq/conformance"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// The worker for Node keeps the rules of a good worker, also when it is frozen or killed.
func TestNodeWorkerConforms(t *testing.T) {
	t.Parallel()
	installed(t)
	worker := conformance.Worker{
		Command: []string{"node", "worker.mjs"}, Output: t.Output(),
		Visibility: min(azuritetest.Patience(4*time.Second), 20*time.Second).Round(time.Second),
		Patience:   azuritetest.Patience(20 * time.Second),
	}
	verdicts, err := conformance.Check(t.Context(), azuritetest.Account(t), azuritetest.ConnectionString(t), worker)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		for _, how := range v.Broken {
			t.Errorf("%s: %s: %s", v.Name, v.Text, how)
		}
	}
}
