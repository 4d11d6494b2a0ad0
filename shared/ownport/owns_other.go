//go:build !linux

package ownport

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Owns asks lsof, which macOS has, for the process that listens on a port.
func Owns(pid, port int) (bool, error) {
	out, err := exec.Command("lsof", "-nP", "-t", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN").Output()
	if err != nil {
		return false, fmt.Errorf("ask lsof who listens on port %d: %w", port, err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.TrimSpace(line) == strconv.Itoa(pid) {
			return true, nil
		}
	}
	return false, nil
}
