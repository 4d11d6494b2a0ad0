//go:build unix

package ffmpeg

import (
	"os"
	"syscall"
)

var signalStop, signalGoOn os.Signal = syscall.SIGSTOP, syscall.SIGCONT
