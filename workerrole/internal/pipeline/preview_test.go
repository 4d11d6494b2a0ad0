package pipeline

import (
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A part that a viewer went to is recognised in every lane of the urgent queue: which
// one it comes through depends on the customer.
func TestAViewerIsRecognisedInEveryLane(t *testing.T) {
	t.Parallel()
	chunk := func(index int) engine.Key {
		return engine.Key{ID: engine.NewID(), Generation: 1, Step: workflow.StepEncode, Index: index}
	}
	for lane := range azq.DefaultLanes {
		job := func(base string) *azq.RawJob {
			return &azq.RawJob{Queue: azq.LaneName(base, lane), Base: base}
		}
		if !isSeekRequest(chunk(7), job(workflow.EncodeFirst)) {
			t.Errorf("lane %d: a viewer's chunk is not recognised", lane)
		}
		if isSeekRequest(chunk(0), job(workflow.EncodeFirst)) || isSeekRequest(chunk(7), job(workflow.EncodeNormal)) {
			t.Errorf("lane %d: a chunk that no viewer went to is taken for one", lane)
		}
	}
}

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
		if got := niceness(video.Video{Meta: engine.Meta{Bulk: c.bulk}}, &azq.RawJob{Queue: c.queue + "-2", Base: c.queue}); got != c.nice {
			t.Errorf("%+v: the niceness is %d", c, got)
		}
	}
}
