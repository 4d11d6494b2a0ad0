package ffmpeg

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup gives the child a process group of its own, which is killed as a
// whole when the context ends, and ties its life to ours.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have left its group
	}
}

// renice lowers the priority of a process that has just started and has made
// no threads yet. Should it fail, the process competes like all others.
func renice(pid, by int) {
	const zero = 20 // the system call counts from 40 down to 1
	if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, min(zero-was+by, 19))
	}
}

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

// clockTick is the unit of times in /proc: proc(5).
const clockTick = time.Second / 100

// processorOf reports whether a thread of the process wants a processor, or is stopped, and
// how much processor time the process has used. known is false when it is gone.
func processorOf(pid int) (wants bool, used time.Duration, known bool) {
	_, used, known = statOf(fmt.Sprintf("/proc/%d/stat", pid))
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || !known {
		return false, 0, false
	}
	for _, thread := range threads {
		state, _, _ := statOf(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread.Name()))
		wants = wants || state == "R" || state == "T"
	}
	return wants, used, true
}

// statOf reads the state and the processor time from a file of /proc.
func statOf(path string) (state string, used time.Duration, known bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", 0, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the state on
	if len(fields) < 13 {
		return "", 0, false
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return fields[0], time.Duration(user+system) * clockTick, true
}
