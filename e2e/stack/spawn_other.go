//go:build !linux

package stack

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the child a process group of its own, so that Ctrl-C in a
// terminal reaches us only. There is no death signal outside Linux: children of
// a killed supervisor go on, and `make down` finds them by their pid files.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func onLastingThread(start func() error) error { return start() }
