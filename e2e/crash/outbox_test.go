package crash_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

var errCrashed = errors.New("crashed before the message was sent")

// crashed is a sender that never comes to sending.
type crashed struct{}

func (crashed) SendItem(context.Context, string, azq.Item, time.Duration) error { return errCrashed }
func (crashed) Lane(context.Context, string, bool) (int, bool)                  { return 0, false }
func (crashed) Waiting(context.Context, string) (bool, error)                   { return true, nil }

// A web role that dies between the row and its message has promised the message
// in the same transaction as the row. The worker's reconciler keeps the promise.
func TestPromiseIsKeptAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	l.worker("steady")
	id, err := l.create("Crash small", nil)
	if err != nil {
		t.Fatal(err)
	}
	path, err := small.path()
	if err != nil {
		t.Fatal(err)
	}
	dying := videostore.New(l.account, crashed{})
	upload := partstest.Begin(t, dying, l.blobs, id, path)
	_, err = dying.Uploaded(t.Context(), id, upload.Layout.Epoch, upload.Manifest())
	if !errors.Is(err, errCrashed) {
		t.Fatalf("Uploaded = %v, want the crash", err)
	}
	at := time.Now()
	l.await(30*time.Second, "probed", func() bool { return len(l.view(id).Runs) > 0 })
	took := time.Since(at)
	t.Logf("the promised probe began %.1f s after the crash", took.Seconds())
	l.hold(at, soon("the promised probe began", took, 12*time.Second))
	l.ready(id)
	l.equalsUninterrupted(small, id)
	l.nothingLeft()
}

// clear removes the messages of every queue of the steps named.
func (l *lane) clear(steps ...string) {
	l.t.Helper()
	for _, step := range steps {
		for _, queue := range queuesOf(step) {
			l.ask(http.StatusNoContent, http.MethodPost, "/api/v1/ops/queues/"+queue+"/clear")
		}
	}
}

// An operator clears the queues, again and again, in every stage of a video.
func TestClearedMessagesAreSentAgain(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	id := l.mustUpload(small)
	if l.length(workflow.Probe) != 1 {
		t.Fatal("the probe's message is not there")
	}
	l.clear(workflow.StepProbe)

	light := l.worker("light", "WORKERROLE_POOLS=light=4,heavy=0")
	l.await(time.Minute, "planned, and chunks in their queues", func() bool {
		return len(l.view(id).Plans) == 1 && l.length(workflow.EncodeFirst) == 1 && l.length(workflow.EncodeHigh) == 2 && l.length(workflow.EncodeNormal) >= 1
	})
	if err := l.StopRole(light); err != nil {
		t.Fatal(err)
	}
	l.clear(workflow.StepEncode, workflow.StepAudio)

	l.worker("full", oneEncoder)
	for chunks := range 3 { // and under the worker's hands
		l.encoding(chunks, func() videostore.View { return l.view(id) })
		l.clear(workflow.StepProbe, workflow.StepEncode, workflow.StepAudio, workflow.StepFinish)
	}
	l.ready(id)
	l.equalsUninterrupted(small, id)
	l.nothingLeft()
}
