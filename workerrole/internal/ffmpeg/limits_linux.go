package ffmpeg

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// impose limits a process that has just started and has read nothing yet. It has
// no core file either: that would be a stranger's bytes on our disk. Should it
// fail, the process has ended already, or runs as processes always did.
func (l limits) impose(pid int) {
	set := func(resource int, soft, hard uint64) {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: soft, Max: hard}, nil)
	}
	cpu, memory, file := uint64(l.cpu.Seconds()), uint64(l.memory), uint64(l.file)
	set(unix.RLIMIT_CPU, cpu, cpu+5) // a signal of its own first, then the one that nothing survives
	set(unix.RLIMIT_AS, memory, memory)
	set(unix.RLIMIT_FSIZE, file, file)
	set(unix.RLIMIT_CORE, 0, 0)
}

// peakMemory is the most that an ended child had in memory, in bytes.
func peakMemory(child *os.ProcessState) int64 {
	if used, ok := child.SysUsage().(*syscall.Rusage); ok {
		return used.Maxrss << 10
	}
	return 0
}
