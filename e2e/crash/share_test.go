package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/workflow"
)

// Two workers share the chunks of one video.
func TestTwoWorkersShareAVideo(t *testing.T) {
	t.Parallel()
	l := newLane(t, 10*time.Second)
	l.worker("left", oneEncoder)
	l.worker("right", oneEncoder)
	start := time.Now()
	id := l.mustUpload(large)
	view := l.ready(id)
	chunks := map[string]int{}
	for _, s := range view.Runs {
		if tries(s) != 1 {
			l.hold(start, []string{fmt.Sprintf("%s took %d attempts", s.Key, s.Attempts)})
		}
		if s.Key.Step == workflow.StepEncode {
			chunks[s.Worker]++
		}
	}
	t.Logf("chunks by worker: %v", chunks)
	if chunks["left"] == 0 || chunks["right"] == 0 || chunks["left"]+chunks["right"] != len(view.Plans[1].Chunks) {
		t.Errorf("chunks by worker: %v, want %d by both", chunks, len(view.Plans[1].Chunks))
	}
	l.equalsUninterrupted(large, id)
	l.nothingLeft()
}
