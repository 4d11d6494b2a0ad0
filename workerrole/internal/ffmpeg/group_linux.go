package ffmpeg

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the child a process group of its own, which is killed as a
// whole when the context ends, and ties its life to ours.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// stepBack lowers a process's priority before it has made threads. Should it
// fail, the process only competes as everybody does.
func stepBack(pid, nice int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, nice) }
