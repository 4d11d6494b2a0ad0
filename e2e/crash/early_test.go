package crash_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/early/earlytest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// whileItUploads are the places that a worker passes before the last byte is sent. With
// -thorough a test takes all of them, else those that it names.
func whileItUploads(some ...string) []string {
	if !*thorough {
		return some
	}
	all := []string{"audio/part", "index/catalogued", "index/indexed"}
	for _, step := range []string{workflow.StepProbe, workflow.StepEncode, workflow.StepAudio} {
		for _, place := range places {
			all = append(all, step+"/"+place)
		}
	}
	return all
}

// reaches sends half of a film until a worker is at its point.
func (l *lane) reaches(point string, there func() bool) *earlytest.Sending {
	l.t.Helper()
	u := l.begin(growing)
	u.Beginning(u.Layout.Count() / 2)
	l.await(2*time.Minute, "at "+point, func() bool {
		u.Arrived()
		return there()
	})
	if view := l.view(u.ID); view.Subject.State != engine.AwaitingUpload || len(u.Sent) == u.Layout.Count() {
		l.t.Errorf("%s: in state %s, with %d of %d parts", point, view.Subject.State, len(u.Sent), u.Layout.Count())
	}
	return u
}

// A worker is killed while it works on an upload that is going on, or is told to stop,
// and comes back when the upload is complete. What was made before and after is what an
// upload that nothing disturbed becomes.
func TestEndedWhileItUploads(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	t.Parallel()
	for signal, points := range map[string][]string{
		"kill": whileItUploads("encode/committed", "audio/output"),
		"term": whileItUploads("encode/claimed"),
	} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			worker := l.worker("victim", oneEncoder)
			for _, point := range points {
				marker := l.arm(worker, point, signal)
				u := l.reaches(point, func() bool {
					_, err := os.Stat(marker)
					return err == nil
				})
				if signal == "kill" {
					l.dead(worker, marker)
				} else if _, state := l.dies(worker); state.ExitCode() != 0 {
					t.Errorf("%s: the worker ended with %v, want exit code 0", point, state)
				}
				l.revive(worker)
				u.Complete()
				l.ready(u.ID)
				l.equalsUninterrupted(growing, u.ID)
			}
			l.nothingLeft()
		})
	}
}

// A worker is frozen in a step of an upload that is going on. Another one does the step
// and is stopped by SIGTERM, and the frozen one wakes. The film is that of an upload that
// nothing disturbed.
func TestFrozenWhileItUploads(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	t.Parallel()
	for _, point := range whileItUploads("encode/output") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			zombie := l.worker("zombie", oneEncoder)
			marker := l.arm(zombie, point, "stop")
			u := l.reaches(point, func() bool {
				_, err := os.Stat(marker)
				return err == nil && processState(l.Pid(zombie)) == 'T'
			})
			var held []engine.Run // what another one has to do; none after a commit
			for _, s := range l.view(u.ID).Runs {
				if s.Worker == "zombie" && s.State == engine.RunRunning {
					held = append(held, s)
				}
			}
			if point == "encode/output" && len(held) == 0 {
				t.Error("the frozen worker holds no step: the test tests nothing")
			}
			winner := l.worker("winner", oneEncoder)
			l.await(2*time.Minute, "made by another worker", func() bool {
				u.Arrived()
				view := l.view(u.ID)
				for _, was := range held {
					if s, _ := view.Find(1, was.Key.Step, was.Key.Index); s.State != engine.RunDone || s.Worker != "winner" {
						return false
					}
				}
				return true
			})
			if err := l.StopRole(winner); err != nil {
				t.Fatal(err)
			}
			if err := l.Kill(zombie, stack.Wake); err != nil {
				t.Fatal(err)
			}
			u.Complete()
			view := l.ready(u.ID)
			for _, was := range held {
				if s, _ := view.Find(1, was.Key.Step, was.Key.Index); s.Worker != "winner" {
					t.Errorf("%s is now by %s", s.Key, s.Worker)
				}
			}
			l.equalsUninterrupted(growing, u.ID)
			l.nothingLeft()
		})
	}
}

// An upload that is given up leaves nothing of what was made of it.
func TestAbandonedUploadLeavesNothing(t *testing.T) {
	earlytest.NeedsEarlyGates(t)
	t.Parallel()
	l := newLaneOn(t, world.connection, 6*time.Second, "CUTROOM_ABANDON_AFTER=30s")
	l.worker("steady")
	u := l.begin(growing)
	u.Beginning(u.Layout.Count() * 2 / 3)
	l.await(2*time.Minute, "a chunk", func() bool {
		u.Arrived()
		return slices.ContainsFunc(l.view(u.ID).Runs, func(s engine.Run) bool {
			return s.Key.Step == workflow.StepEncode && s.State == engine.RunDone
		})
	})
	l.gone(u.ID, 3*time.Minute)
}

// begin announces a video and lays out its file in 24 parts.
func (l *lane) begin(c *clip) *earlytest.Sending {
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
	_, err = l.videos.Change(l.t.Context(), id, "", func(v *video.Video) ([]engine.OutboxMessage, error) {
		v.Upload = partstest.Upload(layout)
		return nil, nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return earlytest.New(l.t, l.videos, l.blobs, partstest.New(l.t, l.videos, l.blobs, id, layout, content))
}
