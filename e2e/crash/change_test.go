package crash_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Cancelled in the middle, taken up again, and processed anew while it plays.
func TestCancelRetryReprocess(t *testing.T) {
	t.Parallel()
	l := newLane(t, 10*time.Second)
	l.worker("busy", oneEncoder)
	id := l.mustUpload(large)
	at := "/api/v1/videos/" + string(id)

	l.encoding(2, func() videostore.View { return l.view(id) })
	l.ask(http.StatusAccepted, http.MethodPost, at+"/cancel")
	asked := time.Now()
	l.await(20*time.Second, "true that the encoder has stopped", func() bool { return len(l.encoders.running()) == 0 })
	l.await(time.Minute, "true that the cancelled video's messages are dropped", func() bool {
		for _, step := range workflow.Declaration.Steps {
			for _, queue := range step.Queues {
				if l.length(queue) > 0 {
					return false
				}
			}
		}
		return true
	})
	t.Logf("encoder stopped and messages dropped %.1f s after the cancellation", time.Since(asked).Seconds())
	cancelled := l.view(id)
	if cancelled.Subject.State != engine.Cancelled {
		t.Fatalf("state %s after cancel", cancelled.Subject.State)
	}
	done := map[engine.Key]engine.Run{}
	for _, step := range cancelled.Runs {
		if step.State == engine.RunDone {
			done[step.Key] = step
		}
	}
	if chunks := videostore.ProgressOf(cancelled).ChunksDone; chunks < 2 || chunks > 3 {
		t.Fatalf("%d chunks were done at the cancellation, want 2 or 3 of 4", chunks)
	}

	l.ask(http.StatusAccepted, http.MethodPost, at+"/retry")
	first := l.ready(id)
	for key, before := range done {
		now, _ := first.Find(key.Generation, key.Step, key.Index)
		if now.Attempt != before.Attempt || !now.FinishedAt.Equal(before.FinishedAt) {
			t.Errorf("%s was finished before the retry and was done again", key)
		}
	}
	l.equalsUninterrupted(large, id)

	l.ask(http.StatusAccepted, http.MethodPost, at+"/reprocess")
	plays := 0
	l.await(4*time.Minute, "ready again", func() bool {
		view := l.view(id)
		if view.Subject.State == engine.Ready && view.Subject.Serving == 2 {
			return true
		}
		if !view.Subject.Playable {
			t.Error("not playable during the reprocessing")
		}
		text := string(l.ask(http.StatusOK, http.MethodGet, "/v/"+string(id)+"/"+first.Plans[1].Renditions[0].Name+".m3u8"))
		if !strings.Contains(text, "#EXT-X-ENDLIST") {
			t.Errorf("the playlist is not complete during the reprocessing:\n%s", text)
		}
		plays++
		return false
	})
	if plays == 0 {
		t.Error("no viewer looked at the playlist during the reprocessing")
	}
	second := l.ready(id) // and what comes after ready has ended, too
	for _, step := range second.Runs {
		if step.Key.Generation == 2 && step.State != engine.RunDone {
			t.Errorf("%s of generation 2 is %s", step.Key, step.State)
		}
	}
	l.equalsUninterrupted(large, id)
	l.nothingLeft()
	l.await(30*time.Second, "rid of the first generation's blobs", func() bool {
		for _, name := range l.blobNames(engine.MediaContainer, engine.Prefix(id)) {
			if strings.HasPrefix(name, string(id)+"/g00001/") {
				return false
			}
		}
		return true
	})
}
