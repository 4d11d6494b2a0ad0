package crash_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/sourceparts/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A worker is killed while it works on an upload that is going on, and comes back when
// the upload is complete. What was made before and after is what an upload that nothing
// disturbed becomes.
func TestKilledWhileItUploads(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	worker := l.worker("victim", oneEncoder)
	for _, point := range []string{"probe/output", "encode/output", "encode/committed", "encode/enqueued", "audio/output"} {
		marker := l.arm(worker, point, "kill")
		u := l.begin(growing)
		u.Beginning(u.Layout.Count() / 2)
		l.await(2*time.Minute, "death at "+point, func() bool {
			u.Arrived()
			_, err := os.Stat(marker)
			return err == nil
		})
		l.dead(worker, marker)
		if view := l.view(u.ID); view.Video.State != video.AwaitingUpload || len(u.Sent) == u.Layout.Count() {
			t.Errorf("%s: killed in state %s, with %d of %d parts", point, view.Video.State, len(u.Sent), u.Layout.Count())
		}
		l.revive(worker)
		u.Complete()
		l.ready(u.ID)
		l.equalsUninterrupted(growing, u.ID)
	}
	l.nothingLeft()
}

// A worker is frozen in a chunk of an upload that is going on, another one makes the
// chunk and is stopped by SIGTERM, and the frozen one wakes. The film is that of an
// upload that nothing disturbed.
func TestFrozenAndStoppedWhileItUploads(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	zombie := l.worker("zombie", oneEncoder)
	marker := l.arm(zombie, "encode/output", "stop")
	u := l.begin(growing)
	u.Beginning(u.Layout.Count() / 2)
	l.await(2*time.Minute, "frozen in a chunk", func() bool {
		u.Arrived()
		_, err := os.Stat(marker)
		return err == nil && processState(l.Pid(zombie)) == 'T'
	})
	var held videostore.Step
	for _, s := range l.view(u.ID).Steps {
		if s.Key.Step == workflow.StepEncode && s.Worker == "zombie" && s.State == videostore.StepRunning {
			held = s
		}
	}
	winner := l.worker("winner", oneEncoder)
	l.await(2*time.Minute, "made by another worker", func() bool {
		s, _ := l.view(u.ID).Find(1, workflow.StepEncode, held.Key.Index)
		return s.State == videostore.StepDone && s.Worker == "winner"
	})
	if err := l.StopRole(winner); err != nil {
		t.Fatal(err)
	}
	if view := l.view(u.ID); view.Video.State != video.AwaitingUpload || len(u.Sent) == u.Layout.Count() {
		t.Errorf("in state %s, with %d of %d parts", view.Video.State, len(u.Sent), u.Layout.Count())
	}
	if err := l.Kill(zombie, stack.Wake); err != nil {
		t.Fatal(err)
	}
	u.Complete()
	if s, _ := l.ready(u.ID).Find(1, workflow.StepEncode, held.Key.Index); s.Worker != "winner" {
		t.Errorf("%s is now by %s", s.Key, s.Worker)
	}
	l.equalsUninterrupted(growing, u.ID)
	l.nothingLeft()
}

// An upload that is given up leaves nothing of what was made of it.
func TestAbandonedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLaneOn(t, world.connection, 6*time.Second, "CUTROOM_ABANDON_AFTER=30s")
	l.worker("steady")
	u := l.begin(growing)
	u.Beginning(u.Layout.Count() * 2 / 3)
	l.await(2*time.Minute, "a chunk", func() bool {
		u.Arrived()
		return slices.ContainsFunc(l.view(u.ID).Steps, func(s videostore.Step) bool {
			return s.Key.Step == workflow.StepEncode && s.State == videostore.StepDone
		})
	})
	l.gone(u.ID, 3*time.Minute)
}

// begin announces a video and lays out its file in 24 parts.
func (l *lane) begin(c *clip) *partstest.Sending {
	l.t.Helper()
	path, err := c.path()
	if err != nil {
		l.t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	id, err := l.create("Crash early", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	layout := partstest.Layout(content, 24)
	_, err = l.videos.Change(l.t.Context(), id, "", func(v *video.Video) ([]videostore.Intent, error) {
		v.Upload = partstest.Upload(layout)
		return nil, nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return partstest.New(l.t, l.videos, l.blobs, id, layout, content)
}
