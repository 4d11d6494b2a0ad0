package crash_test

import (
	"encoding/json"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/videostore"
)

// encoding waits until a video has a chunk and another one is being encoded, and
// returns the encoder's process id.
func (l *lane) encoding(chunks int, view func() videostore.View) (pid int) {
	l.t.Helper()
	l.await(4*time.Minute, "encoding", func() bool {
		pids := l.encoders.running()
		if videostore.ProgressOf(view()).ChunksDone < chunks || len(pids) == 0 {
			return false
		}
		pid = pids[len(pids)-1]
		return true
	})
	return pid
}

// The worker is killed while ffmpeg is at work, which must not outlive it.
func TestKilledWhileEncoding(t *testing.T) {
	t.Parallel()
	l := newLane(t, 6*time.Second)
	worker := l.worker("victim", oneEncoder)
	id := l.mustUpload(large)
	h := l.watch(id)
	pid := l.encoding(1, func() videostore.View { return l.view(id) })
	if err := l.Kill(worker, stack.Die); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	l.awaitEvery(5*time.Millisecond, 3*time.Second, "true that ffmpeg died with its worker", func() bool { return !alive(pid) })
	orphan := time.Since(died)
	l.dies(worker)
	before := l.view(id)
	if len(l.scratches()) != 2 {
		t.Errorf("scratch directories %v: want the upkeep's and the one that the killed worker left", l.scratches())
	}
	l.revive(worker)
	l.await(5*time.Second, "free of the killed worker's scratch directory", func() bool { return len(l.scratches()) == 2 })
	took := l.recovered("encode/claimed", id, before).Sub(died)
	view := l.ready(id)
	t.Logf("ffmpeg dead after %v; its chunk taken up again after %.1f s; ready after %.1f s",
		orphan.Round(time.Millisecond), took.Seconds(), view.Subject.ReadyAt.Sub(died).Seconds())
	l.hold(died, soon("ffmpeg died", orphan, time.Second))
	l.hold(died, soon("taken up again", took, l.visibility+2*time.Second))
	l.hold(died, attempts(before, view))
	l.equalsUninterrupted(large, id)
	for _, v := range h.end() {
		t.Error(v)
	}
	l.nothingLeft()
}

// troubles is what a worker says of itself: the items that met trouble, and those that
// failed.
func (l *lane) troubles(worker string) (troubled, failed int) {
	l.t.Helper()
	var list struct {
		Items []struct {
			Name    string
			Details struct{ Failed, Troubled int }
		}
	}
	if err := json.Unmarshal(l.ask(http.StatusOK, http.MethodGet, "/api/v1/ops/workers"), &list); err != nil {
		l.t.Fatal(err)
	}
	for _, w := range list.Items {
		if w.Name == worker {
			return w.Details.Troubled, w.Details.Failed
		}
	}
	return 0, 0
}

// ffmpeg alone is killed, as by a system that is out of memory: its work is done
// again, and the item is not to blame.
func TestEncoderKilledAlone(t *testing.T) {
	t.Parallel()
	l := newLane(t, 10*time.Second)
	l.worker("patient", oneEncoder)
	id := l.mustUpload(large)
	h := l.watch(id)
	pid := l.encoding(1, func() videostore.View { return l.view(id) })
	before := l.view(id)
	start := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	view := l.ready(id)
	l.hold(start, attempts(before, view))
	l.await(20*time.Second, "said by the worker that there was trouble and no failure", func() bool {
		troubled, failed := l.troubles("patient")
		if failed != 0 {
			t.Fatalf("killing ffmpeg was recorded as %d failures", failed)
		}
		return troubled > 0
	})
	l.equalsUninterrupted(large, id)
	for _, v := range h.end() {
		t.Error(v)
	}
	l.nothingLeft()
}
