package httpapi

import (
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
)

// The row of a run keeps the end of its last attempt, which is no end of the run.
func TestARunThatGoesOnHasNoEnd(t *testing.T) {
	t.Parallel()
	for state, ended := range map[engine.RunState]bool{
		engine.RunQueued: false, engine.RunRunning: false, engine.RunDone: true, engine.RunFailed: true,
	} {
		run := StepRun{Run: engine.Run{State: state, FinishedAt: time.Now()}}
		if out := publicStep(run, Disclosed{}); (out.Finished != nil) != ended {
			t.Errorf("%s: finished %v", state, out.Finished)
		}
	}
}
