package crash_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/previews"
)

// A viewer goes to a part that is not made, and the worker is killed, or frozen past its
// lease, when it has made a preview of it and has not sent the part on. The preview plays
// meanwhile, and the video is what it would have been.
func TestLostAfterAPreview(t *testing.T) {
	t.Parallel()
	for _, signal := range points([]string{"kill"}, "stop") {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 6*time.Second)
			l.worker("planner", "WORKERROLE_POOLS=light=4,heavy=0")
			id := l.mustUpload(lengthy)
			l.await(time.Minute, "planned", func() bool { return len(l.view(id).Plans) > 0 })
			seek := func(second float64) string {
				t.Helper()
				status, answer := l.call(http.MethodPost, "/api/v1/videos/"+string(id)+"/seek", strings.NewReader(fmt.Sprintf(`{"at":%v}`, second)), "application/json")
				if status != http.StatusOK {
					t.Fatalf("seek: %d %s", status, answer)
				}
				return string(answer)
			}
			if answer := seek(150); !strings.Contains(answer, `"made":false`) {
				t.Fatalf("before anything is made: %s", answer)
			}
			marker := filepath.Join(t.TempDir(), "reached")
			lost := l.worker("lost", oneEncoder, "CUTROOM_FAILPOINT=encode/preview:"+signal+":"+marker)
			if signal == "kill" {
				l.dead(lost, marker)
			} else {
				l.frozen(lost, marker)
			}
			previews.Open(l.videos)
			before := l.view(id)
			made, err := previews.Of(before, 1)
			if err != nil || len(made) == 0 { // there may be two: urgent work has a slot beside the encoder's
				t.Fatal("no chunk has a preview")
			}
			for chunk := range made { // that second's, or the next
				if answer := seek(before.Plans[1].Start(chunk) + 0.1); !strings.Contains(answer, `"preview":true`) {
					t.Errorf("chunk %d has a preview: %s", chunk, answer)
				}
			}

			l.worker("winner", "WORKERROLE_POOLS=light=8,heavy=4")
			l.ready(id)
			if signal == "stop" {
				l.settled(id)
				if err := l.Kill(lost, stack.Wake); err != nil {
					t.Fatal(err)
				}
			}
			l.equalsUninterrupted(lengthy, id)
			l.nothingLeft()
		})
	}
}
