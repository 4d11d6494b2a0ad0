package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clockTick is how often a second the kernel counts CPU time in /proc: 100 on
// every Linux that Go runs on.
const clockTick = 100

// cpuTime is the CPU time that a process and the children it has waited for
// have used, user and system. A child that still runs is not in it.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	// The second field is the name in parentheses, which may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const utime = 14 - 3 // proc(5) counts from 1, and we start at the third field
	if len(fields) < utime+4 {
		return 0, fmt.Errorf("read the CPU time of process %d: %d fields", pid, len(fields))
	}
	var ticks int64
	for _, field := range fields[utime : utime+4] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTick, nil
}

// memory is a line of /proc/PID/status in bytes: VmRSS is now, VmHWM the peak
// since resetPeak.
func memory(pid int, line string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for row := range strings.Lines(string(text)) {
		fields := strings.Fields(row)
		if len(fields) == 3 && fields[0] == line+":" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: no %s", pid, line)
}

// resetPeak makes VmHWM count from now: proc(5), clear_refs.
func resetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak memory of process %d: %w", pid, err)
	}
	return nil
}

// machine describes what the numbers were measured on.
func machine() string {
	model := ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = ", " + strings.Trim(line, " \t:")
		}
	}
	ffmpeg := ""
	if out, err := exec.Command("ffmpeg", "-version").Output(); err == nil {
		if words := strings.Fields(string(out)); len(words) > 2 {
			ffmpeg = ", ffmpeg " + words[2]
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		load = ", load at the start " + first
	}
	return fmt.Sprintf("%d cores%s, %s/%s, %s%s%s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version(), ffmpeg, load)
}
