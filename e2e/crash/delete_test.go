package crash_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/engine"
)

// notFound checks that nothing of a deleted video is served.
func (l *lane) notFound(id engine.ID) {
	l.t.Helper()
	for _, path := range []string{"/api/v1/videos/" + string(id), "/api/v1/videos/" + string(id) + "/steps", "/v/" + string(id) + "/master.m3u8", "/v/" + string(id) + "/poster.jpg"} {
		l.ask(http.StatusNotFound, http.MethodGet, path)
	}
	for _, action := range []string{"retry", "cancel", "reprocess", "upload/complete"} {
		l.ask(http.StatusNotFound, http.MethodPost, "/api/v1/videos/"+string(id)+"/"+action)
	}
}

// A video is deleted while one worker is frozen in the middle of it and another
// one works on. Nothing may stay, and the frozen one may bring nothing back.
func TestDeletedDuringTranscode(t *testing.T) {
	t.Parallel()
	for _, point := range points([]string{"encode/output", "audio/part"}, "encode/claimed", "encode/committed") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			zombie := l.worker("zombie", oneEncoder)
			marker := l.arm(zombie, point, "stop")
			id := l.mustUpload(small)
			l.frozen(zombie, marker)
			other := l.worker("other", oneEncoder)

			l.ask(http.StatusAccepted, http.MethodDelete, "/api/v1/videos/"+string(id))
			asked := time.Now()
			l.notFound(id)
			l.gone(id, 2*time.Minute)
			t.Logf("everything gone %.1f s after the delete", time.Since(asked).Seconds())
			l.notFound(id)
			if err := l.StopRole(other); err != nil {
				t.Fatal(err)
			}

			if err := l.Kill(zombie, stack.Wake); err != nil {
				t.Fatal(err)
			}
			next := l.mustUpload(small)
			l.ready(next) // by now the zombie has done its worst
			l.found(next)
			l.notFound(id)
			l.gone(id, 20*time.Second)
			for _, path := range []string{"/api/v1/search?q=crash&limit=100", "/api/v1/videos?limit=100"} {
				if strings.Contains(string(l.ask(http.StatusOK, http.MethodGet, path)), string(id)) {
					t.Errorf("%s shows a deleted video", path)
				}
			}
			l.nothingLeft()
		})
	}
}
