package pipeline

import (
	"testing"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
)

// A part that a viewer went to is recognised in every lane of the urgent queue: which
// one it comes through depends on the customer.
func TestAViewerIsRecognisedInEveryLane(t *testing.T) {
	t.Parallel()
	chunk := func(index int) workflow.Key {
		return workflow.Key{ID: video.NewID(), Generation: 1, Step: workflow.StepEncode, Index: index}
	}
	for lane := range workqueue.Lanes {
		job := func(base string) *consumer.Job {
			return &consumer.Job{Queue: workqueue.LaneName(base, lane), Base: base}
		}
		if !awaited(chunk(7), job(workflow.EncodeFirst)) {
			t.Errorf("lane %d: a viewer's chunk is not recognised", lane)
		}
		if awaited(chunk(0), job(workflow.EncodeFirst)) || awaited(chunk(7), job(workflow.EncodeNormal)) {
			t.Errorf("lane %d: a chunk that no viewer went to is taken for one", lane)
		}
	}
}

// Q5: what a viewer waits for has the processor, and a channel that sends much does not.
func TestPriorityOfPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step   string
		urgent bool
		bulk   bool
		low    bool
	}{
		{workflow.StepProbe, true, false, false},
		{workflow.StepProbe, true, true, false},
		{workflow.StepEncode, true, false, false},
		{workflow.StepEncode, true, true, true},
		{workflow.StepEncode, false, false, true},
		{workflow.StepFinish, false, true, true},
	} {
		key, v := workflow.Key{Step: c.step}, video.Video{Bulk: c.bulk}
		if got := lowPriority(key, v, &consumer.Job{Urgent: c.urgent}); got != c.low {
			t.Errorf("%+v: low priority is %t", c, got)
		}
	}
}
