package ffmpeg

import "golang.org/x/sys/unix"

// impose limits a process that has just started and has read nothing yet. It has
// no core file either: that would be a stranger's bytes on our disk. Should it
// fail, the process has ended already, or runs as processes always did.
func (l limits) impose(pid int) {
	set := func(resource int, value uint64) {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
	}
	set(unix.RLIMIT_CPU, uint64(l.cpu.Seconds()))
	set(unix.RLIMIT_AS, uint64(l.memory))
	set(unix.RLIMIT_FSIZE, uint64(l.file))
	set(unix.RLIMIT_CORE, 0)
}
