package crash_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// places are the boundaries between two writes that all steps have, in order.
var places = []string{"claimed", "output", "committed", "enqueued"}

// thorough is for `make test-all`: without it a test takes the points that differ most.
var thorough = flag.Bool("thorough", false, "end or freeze a worker at every point of every step; a burst of 60 uploads")

// points are some, and with -thorough more.
func points(some []string, more ...string) []string {
	if *thorough {
		some = append(some, more...)
	}
	return some
}

// stepsOfALane is how many steps share a lane, because each lane is three processes more.
const stepsOfALane = 3

// boundaries are those of the places of every step of a plan at which a worker is to be
// ended, for each lane: with -thorough all of them, else one of each step, so that each
// step and each place has its turn.
func boundaries(of ...string) (lanes [][]string) {
	steps := slices.DeleteFunc(slices.Clone(workflow.Declaration.Steps), func(s engine.Step) bool { return !s.HasRows() || s.Stage == engine.OnRequest })
	for i, step := range steps {
		if i%stepsOfALane == 0 || *thorough {
			lanes = append(lanes, nil)
		}
		some := of
		if !*thorough {
			some = of[i%len(of):][:1]
		}
		for _, place := range some {
			lanes[len(lanes)-1] = append(lanes[len(lanes)-1], step.Name+"/"+place)
		}
	}
	return lanes
}

// laneName has all steps of a lane's points, so that -run finds each of them.
func laneName(points []string) string {
	var steps []string
	for _, point := range points {
		if step, _, _ := strings.Cut(point, "/"); !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	return strings.Join(steps, "+")
}

// A worker is killed at a boundary between two writes and started again. Each lane takes
// its points one after the other: those of the steps, and what one step has alone.
func TestKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	lanes := boundaries(places...)
	for i, alone := range []string{"purge/rows", "index/catalogued", "audio/part", "purge/blobs"} {
		lanes[i%len(lanes)] = append(lanes[i%len(lanes)], alone)
	}
	lanes = append(lanes, []string{"encode/committed#4", "encode/enqueued#4", "index/indexed", "purge/unlisted"}) // fan-in
	for _, points := range lanes {
		t.Run(laneName(points), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			worker := l.worker("victim", oneEncoder)
			var id engine.ID
			for _, point := range points {
				if strings.HasPrefix(point, "purge/") {
					if id == "" { // else of the video before it
						id = l.mustUpload(small)
						l.ready(id)
					}
					l.survivesPurge(worker, point, id)
					id = ""
					continue
				}
				id = l.survives(worker, point)
			}
			l.nothingLeft()
			if dirs := l.scratches(); len(dirs) > 2 {
				t.Errorf("scratch directories %v: those of killed workers must be gone", dirs)
			}
		})
	}
}

// arm restarts a worker so that it kills itself at a point, once.
func (l *lane) arm(worker, point, signal string) (marker string) {
	l.t.Helper()
	marker = filepath.Join(l.t.TempDir(), "reached")
	if err := l.Restart(l.t.Context(), worker, oneEncoder, "CUTROOM_FAILPOINT="+point+":"+signal+":"+marker); err != nil {
		l.t.Fatal(err)
	}
	return marker
}

// revive starts a killed worker again. It has slots to spare now, so that it
// waits for nothing but the dead one's leases.
func (l *lane) revive(worker string) {
	l.t.Helper()
	if err := l.Restart(l.t.Context(), worker, "WORKERROLE_POOLS=light=8,heavy=4"); err != nil {
		l.t.Fatal(err)
	}
}

// dead waits until the worker died at its point.
func (l *lane) dead(worker, marker string) time.Time {
	l.t.Helper()
	at, state := l.dies(worker)
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		l.t.Fatalf("the worker ended with %v, not by SIGKILL", state)
	}
	if _, err := os.Stat(marker); err != nil {
		l.t.Fatalf("the worker died elsewhere: %v", err)
	}
	return at
}

// queuesOf are the queues that a step's message may be in.
func queuesOf(step string) []string {
	declared, _ := workflow.Declaration.Find(step)
	return declared.Queues
}

// survives kills the worker at a point of a new video's life, starts it again
// and checks everything. When the machine was too busy for that to mean
// anything, it is done again.
func (l *lane) survives(worker, point string) (id engine.ID) {
	l.t.Helper()
	for try := 1; ; try++ {
		start := time.Now()
		var problems []string
		id, problems = l.survive(worker, point)
		if len(problems) > 0 && try < 3 && l.disturbed(start) {
			l.t.Logf("%s again, for the machine stood still for %v: %q", point, world.pulse.worst(start), problems)
			continue
		}
		for _, problem := range problems {
			l.t.Errorf("%s: %s", point, problem)
		}
		return id
	}
}

func (l *lane) survive(worker, point string) (id engine.ID, problems []string) {
	l.t.Helper()
	marker := l.arm(worker, point, "kill")
	id = l.mustUpload(small)
	h := l.watch(id)
	died := l.dead(worker, marker)
	before := l.view(id)
	l.revive(worker) // the marker disarms the point
	back := l.recovered(point, id, before)
	view := l.ready(id)
	took := back.Sub(died)
	l.t.Logf("%-20s taken up again %.1f s after the kill, ready after %.1f s", point, took.Seconds(), max(0, view.Subject.ReadyAt.Sub(died).Seconds()))
	problems = append(problems, soon("taken up again", took, l.expected(point, died, view))...)
	problems = append(problems, attempts(before, view)...)
	problems = append(problems, l.untold(id, before)...)
	l.equalsUninterrupted(small, id)
	for _, v := range h.end() {
		l.t.Errorf("%s: %s", point, v)
	}
	l.found(id)
	return id, problems
}

// recovered waits until another worker has the work that was interrupted, and
// returns when that was: the second claim of a step that was running, or the
// settling of a message whose step was committed.
func (l *lane) recovered(point string, id engine.ID, before videostore.View) time.Time {
	l.t.Helper()
	name, place, _ := strings.Cut(point, "/")
	var at time.Time
	l.awaitEvery(200*time.Millisecond, l.visibility+3*time.Minute, "taken up again after "+point, func() bool {
		if !running(place) {
			for _, queue := range queuesOf(name) {
				if l.length(queue) > 0 {
					return false
				}
			}
			at = time.Now()
			return true
		}
		view := l.view(id)
		for _, old := range before.Runs {
			now, _ := view.Find(old.Key.Generation, old.Key.Step, old.Key.Index)
			if old.Key.Step == name && old.State == engine.RunRunning && now.Attempts > old.Attempts {
				at = now.StartedAt
				return true
			}
		}
		return false
	})
	return at
}

// running reports whether a step's row says so at a place; after its commit only
// its message is open.
func running(place string) bool {
	return place == "claimed" || place == "output" || place == "part"
}

// expected is when another worker must have interrupted work at the latest. A
// settled message is seen by its queue being empty, which takes as long as the
// chunks or portions whose messages are in there, too.
func (l *lane) expected(point string, died time.Time, after videostore.View) time.Duration {
	limit := l.visibility + 2*time.Second
	name, place, _ := strings.Cut(point, "/")
	for _, s := range after.Runs {
		if sameQueue(s.Key.Step, name) && !running(place) {
			limit = max(limit, s.FinishedAt.Sub(died)+2*time.Second)
		}
	}
	return limit
}

// sameQueue reports whether messages of two steps may be in one queue.
func sameQueue(a, b string) bool {
	return slices.ContainsFunc(queuesOf(a), func(queue string) bool { return slices.Contains(queuesOf(b), queue) })
}

// tries is how often a step was begun. A step after ready that merges another one gives its message
// back while that one has runs under way: such an attempt does not count.
func tries(s engine.Run) int {
	n := s.Attempts
	for _, a := range s.AllAttempts() {
		if workflow.Declaration.StepOf(s.Key).Stage == engine.AfterReady && a.Outcome == engine.OutcomeReleased {
			n--
		}
	}
	return n
}

// attempts is a problem when an interruption cost more than what was running:
// one chunk, and nothing that was committed.
func attempts(before, after videostore.View) (problems []string) {
	redone, finishes := 0, 0
	for _, s := range after.Runs {
		old, found := before.Find(s.Key.Generation, s.Key.Step, s.Key.Index)
		allowed := 1
		if found && old.State == engine.RunRunning {
			allowed = 2
		}
		if tries(s) > allowed || s.State != engine.RunDone {
			problems = append(problems, fmt.Sprintf("%s is %s after %d attempts, want done after at most %d", s.Key, s.State, s.Attempts, allowed))
		}
		switch s.Key.Step {
		case workflow.StepEncode:
			redone += s.Attempts - 1
		case workflow.StepFinish:
			finishes++
		}
	}
	// A worker of one slot holds two chunks when one of them is a beginning.
	if redone > 2 || finishes != 1 {
		problems = append(problems, fmt.Sprintf("%d chunks redone, want at most 2; %d finish steps, want 1", redone, finishes))
	}
	return problems
}

// untold is a problem when the video's journey does not tell what happened to those who
// worked on it: each attempt that was running when the worker died, or froze, is lost,
// and the next one ended the step.
func (l *lane) untold(id engine.ID, before videostore.View) (problems []string) {
	l.t.Helper()
	var journey client.Journey
	if err := json.Unmarshal(l.ask(http.StatusOK, http.MethodGet, "/api/v1/videos/"+string(id)+"/journey"), &journey); err != nil {
		l.t.Fatal(err)
	}
	for _, item := range journey.Items {
		old, _ := before.Find(journey.Generation, item.Step, item.Index)
		if old.State != engine.RunRunning {
			continue
		}
		var told []string
		waits := 0
		for _, a := range item.Attempts {
			if workflow.Declaration.StepOf(old.Key).Stage == engine.AfterReady && a.Outcome == client.AttemptReleased { // as in tries
				waits++
				continue
			}
			told = append(told, fmt.Sprintf("%d %s", a.Number, a.Outcome))
			if a.Outcome == client.AttemptLost && (*a.Worker != old.Worker || a.EndedAt == nil) {
				problems = append(problems, fmt.Sprintf("%s %d was lost by %s, says the journey, and was by %s", item.Step, item.Index, *a.Worker, old.Worker))
			}
		}
		if want := []string{fmt.Sprintf("%d lost", old.Attempts), fmt.Sprintf("%d done", old.Attempts+1+waits)}; !slices.Equal(told, want) {
			problems = append(problems, fmt.Sprintf("the journey tells of %s %d: %q, want %q", item.Step, item.Index, told, want))
		}
	}
	return problems
}

// found waits until the search has the video, once.
func (l *lane) found(id engine.ID) {
	l.t.Helper()
	l.await(3*time.Minute, "found by the search and listed, once", func() bool {
		hits := l.ask(http.StatusOK, http.MethodGet, "/api/v1/search?q=crash&limit=100")
		list := l.ask(http.StatusOK, http.MethodGet, "/api/v1/videos?limit=100")
		mark := `"id":"` + string(id) + `"`
		return strings.Count(string(hits), mark) == 1 && strings.Count(string(list), mark) == 1
	})
}

// survivesPurge deletes a video and kills the worker in the middle of the purge.
func (l *lane) survivesPurge(worker, point string, id engine.ID) {
	l.t.Helper()
	marker := l.arm(worker, point, "kill")
	l.ask(http.StatusAccepted, http.MethodDelete, "/api/v1/videos/"+string(id))
	l.ask(http.StatusNotFound, http.MethodGet, "/api/v1/videos/"+string(id))
	died := l.dead(worker, marker)
	l.ask(http.StatusNotFound, http.MethodGet, "/api/v1/videos/"+string(id))
	l.revive(worker)
	l.gone(id, l.visibility+3*time.Minute)
	took := time.Since(died)
	l.t.Logf("%-20s everything gone %.1f s after the kill", point, took.Seconds())
	l.hold(died, soon("everything gone", took, l.visibility+9*time.Second)) // 2 s for the work itself, and the mark goes with a later pass of the reconciler
}
