//go:build unix && !linux

package ffmpeg

import (
	"os/exec"
	"syscall"
)

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
