//go:build !unix

package ffmpeg

import "os/exec"

// ownGroup does nothing here: the context kills the child alone.
func ownGroup(*exec.Cmd) {}

// renice does nothing here: all processes compete alike.
func renice(int, int) {}
