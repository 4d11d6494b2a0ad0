package pipeline

import (
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Q5: what a viewer waits for has the processor, and a channel that sends much does not.
func TestPriorityOfPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queue string
		bulk  bool
		nice  int
	}{
		{workflow.Probe, false, 0},
		{workflow.Probe, true, workflow.BulkNice},
		{workflow.EncodeFirst, false, 0},
		{workflow.EncodeHigh, false, 3},
		{workflow.EncodeHigh, true, workflow.BulkNice},
		{workflow.EncodeNormal, false, workflow.BulkNice},
		{workflow.Finish, true, workflow.BulkNice},
	} {
		if got := niceness(engine.Meta{Bulk: c.bulk}, c.queue); got != c.nice {
			t.Errorf("%+v: the niceness is %d", c, got)
		}
	}
}
