//go:build !linux

package ffmpeg

import (
	"os"
	"syscall"
	"time"
)

// This file is for development on macOS, where programs run without limits of memory and
// processor time and at our own priority, do not end with us, and count as stalled when
// they get no processor.

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func peakMemory(*os.ProcessState) int64 { return 0 }

func processorOf(int) (wants bool, used time.Duration) { return false, 0 }
