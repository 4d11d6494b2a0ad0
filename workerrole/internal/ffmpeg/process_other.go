//go:build !linux

package ffmpeg

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// This file is for development on macOS, where programs run without limits of memory and
// processor time, and one that gets no processor counts as stalled.

// ownGroup gives the child a process group of its own, which is killed as a
// whole when the context ends. Only Linux can tie its life to ours as well.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have left its group
	}
}

// renice lowers the priority of a process that has just started. Should it
// fail, the process competes like all others.
func renice(pid, by int) {
	if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, min(was+by, 19))
	}
}

func (limits) impose(int) {}

func peakMemory(*os.ProcessState) int64 { return 0 }

func processorOf(int) (wants bool, used time.Duration, known bool) { return false, 0, false }
