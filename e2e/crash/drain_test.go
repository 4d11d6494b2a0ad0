package crash_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// SIGTERM while ffmpeg works: another worker has the message within a second,
// long before its lease would have ended, and has not lost an attempt.
func TestDrainGivesWorkBack(t *testing.T) {
	t.Parallel()
	l := newLane(t, 30*time.Second)
	worker := l.worker("leaver", oneEncoder)
	id := l.mustUpload(large)
	h := l.watch(id)
	pid := l.encoding(1, func() videostore.View { return l.view(id) })
	before := l.view(id)
	running := -1
	for _, step := range before.Runs {
		if step.Key.Step == workflow.StepEncode && step.State == engine.RunRunning {
			running = step.Key.Index
		}
	}
	if running < 0 {
		t.Fatal("no chunk is being encoded")
	}
	if err := l.Kill(worker, stack.Term); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	var given azq.Peeked
	l.awaitEvery(10*time.Millisecond, 15*time.Second, "true that the message is visible", func() bool {
		for _, queue := range queuesOf(workflow.StepEncode) {
			seen, err := l.queues.Queue(queue).Peek(t.Context(), azq.MaxBatch)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range seen {
				if key, err := engine.KeyOf(m.Item); err == nil && key.Index == running && m.DequeueCount > 0 {
					given = m
					return true
				}
			}
		}
		return false
	})
	visible := time.Since(asked)
	ended, state := l.dies(worker)
	if state.ExitCode() != 0 {
		t.Errorf("the worker ended with %v, want exit code 0", state)
	}
	if alive(pid) {
		t.Error("ffmpeg outlived the worker")
	}
	l.hold(asked, soon("the message was visible", visible, time.Second))
	if given.Item.Failures != 0 || given.Item.Releases != 1 {
		t.Errorf("the message counts %d failures and %d releases, want none and 1", given.Item.Failures, given.Item.Releases)
	}
	l.worker("successor")
	started := time.Now()
	view := l.ready(id)
	step, _ := view.Find(1, workflow.StepEncode, running)
	took := step.StartedAt.Sub(started)
	t.Logf("visible %v after SIGTERM, exit after %v, taken up %v after another worker was there",
		visible.Round(time.Millisecond), ended.Sub(asked).Round(time.Millisecond), took.Round(time.Millisecond))
	if step.Worker != "successor" {
		t.Errorf("taken up by %s, want the successor", step.Worker)
	}
	// It comes behind what waited already, and starts when a slot is free: on busy
	// processors that takes a while.
	l.hold(asked, soon("taken up", took, 25*time.Second))
	l.hold(asked, attempts(before, view))
	l.equalsUninterrupted(large, id)
	for _, v := range h.end() {
		t.Error(v)
	}
	l.nothingLeft()
}

// A worker is stopped by SIGTERM at every boundary between two writes, each of another
// step; with -thorough at each of every declared step. It ends by itself, and the next one
// goes on at once: leases last longer than this test waits.
func TestStoppedAtEveryBoundary(t *testing.T) {
	t.Parallel()
	lanes := boundaries("output", "committed", "claimed")
	if !*thorough {
		lanes = lanes[:1]
	}
	for _, points := range lanes {
		t.Run(laneName(points), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, time.Minute)
			worker := l.worker("leaver", oneEncoder)
			for _, point := range points {
				l.arm(worker, point, "term")
				id := l.mustUpload(tiny)
				stopped, state := l.dies(worker)
				if state.ExitCode() != 0 {
					t.Errorf("%s: the worker ended with %v, want exit code 0", point, state)
				}
				l.revive(worker)
				view := l.ready(id)
				l.settled(id)
				l.hold(stopped, soon(point+": settled", time.Since(stopped), 40*time.Second))
				step, _, _ := strings.Cut(point, "/")
				for _, s := range view.Runs {
					if s.Key.Step == step && tries(s) > 2 {
						t.Errorf("%s: %s had %d attempts, want 2 at most", point, s.Key, s.Attempts)
					}
				}
				l.equalsUninterrupted(tiny, id)
			}
			l.nothingLeft()
		})
	}
}
