package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
)

// sendCaptions sends a file of one cue.
func (l *lane) sendCaptions(id engine.ID, language, text string) engine.Key {
	l.t.Helper()
	file := "1\n00:00:01,000 --> 00:00:02,000\n" + text + "\n"
	status, answer := l.call(http.MethodPost, "/api/v1/videos/"+string(id)+"/captions/"+language, strings.NewReader(file), "application/x-subrip")
	var sent struct {
		Language string `json:"language"`
	}
	if err := json.Unmarshal(answer, &sent); err != nil || status != http.StatusAccepted {
		l.t.Fatalf("send captions: %d %s", status, answer)
	}
	key, err := captions.Key(id, sent.Language)
	if err != nil {
		l.t.Fatal(err)
	}
	return key
}

// readyCaptions waits until the file that was sent last is served.
func (l *lane) readyCaptions(key engine.Key, text string) (made engine.Run) {
	l.t.Helper()
	l.await(2*time.Minute, "captions", func() bool {
		var err error
		if made, err = l.videos.ReadRun(l.t.Context(), key); err != nil {
			l.t.Fatal(err)
		}
		if made.State == engine.RunFailed {
			l.t.Fatalf("%s failed: %v", key, made.Error)
		}
		return made.State == engine.RunDone
	})
	status, file := l.call(http.MethodGet, "/api/v1/videos/"+string(key.ID)+"/captions/"+key.Variant, nil, "")
	if want := "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n" + text + "\n"; status != http.StatusOK || string(file) != want {
		l.t.Errorf("%s: %d %q, want %q", key, status, file, want)
	}
	return made
}

// A worker is killed at every boundary of the captions step; every time there is
// the right file in the end. Then one is frozen with a file that another one
// replaces, and its video is deleted.
func TestCaptionsKilledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	// The file is stored before the row that names it, so the janitor needs its grace.
	l := newLaneOn(t, world.connection, 6*time.Second, "CUTROOM_JANITOR_GRACE=10s")
	worker := l.worker("victim", oneEncoder)
	id := l.mustUpload(tiny)
	l.ready(id)
	l.settled(id)
	for i, point := range points([]string{"captions/claimed", "captions/committed"}, "captions/output", "captions/enqueued") {
		text := fmt.Sprintf("killed %d", i)
		marker := l.arm(worker, point, "kill")
		key := l.sendCaptions(id, "en", text)
		died := l.dead(worker, marker)
		before, err := l.videos.ReadRun(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		l.sendCaptions(id, "en", text)
		l.revive(worker)
		made := l.readyCaptions(key, text)
		want := 1
		if before.State == engine.RunRunning {
			want = 2
			took := made.StartedAt.Sub(died)
			t.Logf("%-18s taken up again %.1f s after the kill", point, took.Seconds())
			l.hold(died, soon(point+": taken up again", took, l.visibility+2*time.Second))
		}
		if made.Attempts != want {
			l.hold(died, []string{fmt.Sprintf("%s: %d attempts, want %d", point, made.Attempts, want)})
		}
	}

	// The frozen one has the old file. It wakes when the new one is made, and
	// changes nothing.
	marker := l.arm(worker, "captions/output", "stop")
	key := l.sendCaptions(id, "en", "old")
	l.frozen(worker, marker)
	l.worker("winner", oneEncoder)
	l.sendCaptions(id, "en", "new")
	l.readyCaptions(key, "new")
	if err := l.Kill(worker, stack.Wake); err != nil {
		t.Fatal(err)
	}
	next := l.mustUpload(small)
	l.ready(next) // by now the zombie has done its worst
	l.readyCaptions(key, "new")

	// Reprocessing leaves them, a delete takes them along.
	l.ask(http.StatusAccepted, http.MethodPost, "/api/v1/videos/"+string(id)+"/reprocess")
	l.await(4*time.Minute, "ready again", func() bool { return l.view(id).Subject.Serving == 2 })
	l.readyCaptions(key, "new")
	l.nothingLeft()
	l.ask(http.StatusAccepted, http.MethodDelete, "/api/v1/videos/"+string(id))
	l.gone(id, 2*time.Minute)
	l.nothingLeft()
}
