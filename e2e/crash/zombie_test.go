package crash_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// frozen waits until a worker has stopped itself at its point.
func (l *lane) frozen(worker, marker string) {
	l.t.Helper()
	l.awaitEvery(10*time.Millisecond, 4*time.Minute, "frozen at its point", func() bool {
		_, err := os.Stat(marker)
		return err == nil && processState(l.Pid(worker)) == 'T'
	})
}

// truth is every row of a video with its version: equal means untouched.
func (l *lane) truth(id engine.ID) map[string]string {
	l.t.Helper()
	versions := map[string]string{}
	for _, row := range l.rows(workflow.VideosTable, string(id)) {
		versions[row.RowKey] = row.ETag
	}
	return versions
}

// A worker is frozen past its lease and wakes when another one has done its
// work. It must change nothing, and go on as a good worker.
func TestZombieChangesNothing(t *testing.T) {
	t.Parallel()
	writing := []string{
		workflow.Declaration.MakerOf(workflow.Pictures) + "/output", workflow.Declaration.MakerOf(workflow.Sound) + "/part",
		workflow.Declaration.Only(engine.Last).Name + "/output",
	}
	for _, point := range append(slices.Clone(writing), frozenPoints(writing)...) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			zombie := l.worker("zombie", oneEncoder)
			marker := l.arm(zombie, point, "stop")
			id := l.mustUpload(small)
			h := l.watch(id)
			l.frozen(zombie, marker)
			start := time.Now()
			before := l.view(id)
			if slices.Contains(writing, point) && len(l.zombieBlobs(id, before)) == 0 {
				t.Errorf("the worker has written nothing before %s: the test tests nothing", point)
			}

			winner := l.worker("winner", oneEncoder)
			view := l.ready(id)
			l.hold(start, append(attempts(before, view), l.untold(id, before)...))
			l.settled(id)
			if err := l.StopRole(winner); err != nil {
				t.Fatal(err)
			}
			truth := l.truth(id)

			if err := l.Kill(zombie, stack.Wake); err != nil {
				t.Fatal(err)
			}
			next := l.mustUpload(small) // for the zombie alone
			after := l.ready(next)
			for _, s := range after.Runs {
				if s.Worker != "zombie" {
					t.Errorf("%s of the next video was done by %s", s.Key, s.Worker)
				}
			}
			if diff := cmp.Diff(truth, l.truth(id)); diff != "" {
				t.Errorf("the zombie changed rows (-before +after):\n%s", diff)
			}
			l.equalsUninterrupted(small, id)
			l.equalsUninterrupted(small, next)
			for _, v := range h.end() {
				t.Error(v)
			}
			l.nothingLeft()
		})
	}
}

// frozenPoints are the points of all steps besides those: where each step that a video may not
// wait for, or that it waits for before its parts, is claimed; with -thorough all.
func frozenPoints(besides []string) (points []string) {
	for _, step := range workflow.Declaration.Steps {
		for _, place := range places {
			some := place == "claimed" && (step.Stage == engine.Gate || step.Stage == engine.AfterReady)
			if point := step.Name + "/" + place; step.HasRows() && step.Stage != engine.OnRequest && (some || *thorough) && !slices.Contains(besides, point) {
				points = append(points, point)
			}
		}
	}
	return points
}

// zombieBlobs are the blobs of attempts that have not committed.
func (l *lane) zombieBlobs(id engine.ID, view videostore.View) (names []string) {
	l.t.Helper()
	for _, s := range view.Runs {
		if s.State == engine.RunRunning {
			names = append(names, l.blobNames(engine.MediaContainer,
				s.Key.BlobPrefix(s.Attempt))...)
		}
	}
	return names
}

// settled waits until nothing of a video is under way or in flight any more.
func (l *lane) settled(id engine.ID) {
	l.t.Helper()
	l.await(3*time.Minute, "settled", func() bool {
		for _, row := range l.rows(engine.InflightTable, "") {
			if row.RowKey == string(id) {
				return false
			}
		}
		for _, step := range workflow.Declaration.Steps {
			for _, queue := range step.Queues {
				if l.length(queue) > 0 {
					return false
				}
			}
		}
		return !l.view(id).Unsent
	})
}
