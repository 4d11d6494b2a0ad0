//go:build !linux

package sandbox

import (
	"os/exec"
	"runtime"
)

func (c *Sandbox) look() {
	c.missing = []string{"anything: " + runtime.GOOS + " has no Landlock"}
}

// Hold changes nothing here.
func (c *Sandbox) Hold(*exec.Cmd, Rules) error { return nil }

// Hide does nothing here.
func Hide() error { return nil }
