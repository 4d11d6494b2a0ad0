package ffmpeg

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/testkit/azuritetest"
)

// stateOf is the letter of a process in /proc: T for one that is stopped.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
}

// Programs that step back are stopped for a moment and go on: when they are released, by
// themselves when they are not, and at once when somebody asks again too soon.
func TestProgramsAreHeldForAMoment(t *testing.T) {
	t.Parallel()
	tool := &Tool{}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	forget := tool.others.add(cmd.Process)
	awaitState := func(what string, stopped bool) {
		t.Helper()
		for deadline := time.Now().Add(azuritetest.Patience(2 * holdAtMost)); (stateOf(t, cmd.Process.Pid) == "T") != stopped; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: stopped is %t", what, !stopped)
			}
		}
	}
	release := tool.HoldOthers()
	awaitState("held", true)
	release()
	release()
	awaitState("released", false)

	tool.HoldOthers()()
	if tool.others.held {
		t.Error("held again at once")
	}
	awaitState("asked again at once", false)

	tool.others.notTill = time.Time{}
	forgotten := tool.HoldOthers() // its caller never comes back
	awaitState("held", true)
	awaitState("forgotten", false)
	forgotten()

	forget()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	tool.others.notTill = time.Time{}
	tool.HoldOthers()()
}
