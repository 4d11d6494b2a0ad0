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
// how much processor time the process has used. One that is gone wants none.
func processorOf(pid int) (wants bool, used time.Duration) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false, 0
	}
	whole, err1 := process.Stat()
	threads, err2 := procfs.AllThreads(pid)
	if err1 != nil || err2 != nil {
		return false, 0
	}
	for _, thread := range threads {
		stat, err := thread.Stat()
		wants = wants || err == nil && (stat.State == "R" || stat.State == "T")
	}
	return wants, time.Duration(whole.CPUTime() * float64(time.Second))
}
