package ffmpeg

import (
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// ownGroup gives a child a process group of its own, and ties its life to ours.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakMemory is the most that an ended child had in memory, in bytes.
func peakMemory(child *os.ProcessState) int64 {
	if used, ok := child.SysUsage().(*syscall.Rusage); ok {
		return used.Maxrss << 10
	}
	return 0
}

// processorOf reports whether a thread of the process wants a processor, or is stopped, and
// how much processor time its threads have used. One that is gone wants none.
func processorOf(pid int) (wants bool, used time.Duration) {
	threads, _ := procfs.AllThreads(pid)
	for _, thread := range threads {
		if stat, err := thread.Stat(); err == nil {
			wants = wants || stat.State == "R" || stat.State == "T"
			used += time.Duration(stat.CPUTime() * float64(time.Second))
		}
	}
	return wants, used
}
