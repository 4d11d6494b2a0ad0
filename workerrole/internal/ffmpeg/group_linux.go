package ffmpeg

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the child a process group of its own, which is killed as a
// whole when the context ends, and ties its life to ours.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have left its group
	}
}

// renice lowers the priority of a process that has just started and has made
// no threads yet. Should it fail, the process competes like all others.
func renice(pid, by int) {
	const zero = 20 // the system call counts from 40 down to 1
	if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, min(zero-was+by, 19))
	}
}
