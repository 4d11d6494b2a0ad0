//go:build !linux

package sandbox

import (
	"os/exec"
	"runtime"
	"syscall"
)

func (c *Sandbox) look() {
	c.missing = []string{"anything: " + runtime.GOOS + " has no Landlock"}
}

// Hold gives the command a process group and nothing else: for development on macOS.
func (c *Sandbox) Hold(cmd *exec.Cmd, _ Rules) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// Hide does nothing here.
func Hide() error { return nil }
