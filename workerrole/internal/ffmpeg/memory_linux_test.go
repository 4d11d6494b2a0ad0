package ffmpeg

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/testkit/memorytest"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

const (
	groupMemory  = 512 << 20
	workerMemory = 320 << 20 // more than its program has when the group is full
)

// When the memory of a container is used up the kernel ends the program that ffmpeg's
// run started, and not the worker, although the worker has more of it. That is trouble,
// so the item is tried again.
func TestTheKernelEndsTheProgramAndNotTheWorker(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs programs")
	}
	const groupOf = "CUTROOM_TEST_MEMORY_GROUP"
	if group := os.Getenv(groupOf); group != "" {
		asWorker(t, group)
		return
	}
	if got := scoreOf(t); got != 1000 {
		t.Errorf("a program's oom_score_adj is %d, want 1000", got)
	}
	group, err := memorytest.NewGroup(t, groupMemory)
	if err != nil {
		t.Logf("NOT SHOWN: no control group for memory can be made here, only the score was looked at: %v", err)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), groupOf+"="+group.Dir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte("the worker goes on")) {
		t.Errorf("as a worker: %v", err)
	}
}

// asWorker runs a program that takes all memory of a group that this process is in, too.
func asWorker(t *testing.T, group string) {
	if err := memorytest.Join(group); err != nil {
		t.Fatal(err)
	}
	// Not Go's memory, of which the race detector takes several times as much.
	mine, err := unix.Mmap(-1, 0, workerMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	tool := &Tool{sandbox: trySandbox(t)}
	greedy := script(t, "x=12345678; i=0; while [ $i -lt 28 ]; do x=$x$x; i=$((i+1)); done\n")
	_, err = tool.run(t.Context(), command{path: greedy, dir: t.TempDir(), limits: limits{wall: time.Minute, cpu: time.Minute, memory: 8 << 30, file: 1 << 20}})
	if dependency, _ := azq.AsDependencyError(err); dependency != azq.Killed {
		t.Errorf("the run ended with %v, want it killed", err)
	}
	t.Logf("the worker has %d MiB of %d; %v; the worker goes on", len(mine)>>20, groupMemory>>20, err)
}

// scoreOf is the oom_score_adj of a program that a run starts.
func scoreOf(t *testing.T) int {
	t.Helper()
	held := trySandbox(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	held.Hold(cmd, sandbox.Rules{})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = in.Write([]byte("\n"))
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	score := 0
	azuritetest.Poll(30*time.Second, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if score, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
		return score != 0
	})
	return score
}
