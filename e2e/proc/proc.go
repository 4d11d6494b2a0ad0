// Package proc reads from /proc what processes cost: Linux alone has it.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clockTick is how often a second the kernel counts CPU time in /proc: 100 on
// every Linux that Go runs on.
const clockTick = 100

// stat are the fields of /proc/PID/stat from the third on: the second is the name in
// parentheses, which may hold anything.
func stat(pid int) (name string, fields []string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil, fmt.Errorf("read what process %d does: %w", pid, err)
	}
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if fields = strings.Fields(string(text[to+1:])); from < 0 || len(fields) < 15 {
		return "", nil, fmt.Errorf("read what process %d does: %q", pid, text)
	}
	return string(text[from+1 : to]), fields, nil
}

// CPUTime is the CPU time that a process and the children it has waited for
// have used, user and system. A child that still runs is not in it.
func CPUTime(pid int) (time.Duration, error) {
	_, fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	const utime = 14 - 3 // proc(5) counts from 1, and we start at the third field
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

// Child is the process id of a program that a process has started, or 0.
func Child(parent int, program string) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if name, fields, err := stat(pid); err == nil && name == program && fields[1] == strconv.Itoa(parent) {
			return pid
		}
	}
	return 0
}

// Memory is a line of /proc/PID/status in bytes: VmRSS is now, VmHWM the peak
// since ResetPeak.
func Memory(pid int, line string) (int64, error) {
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

// ResetPeak makes VmHWM count from now: proc(5), clear_refs.
func ResetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak memory of process %d: %w", pid, err)
	}
	return nil
}

// Load is the machine's load of the latest minute.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// Machine describes what the numbers were measured on.
func Machine() string {
	model, ffmpeg := "", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = ", " + strings.Trim(line, " \t:")
		}
	}
	if out, err := exec.Command("ffmpeg", "-version").Output(); err == nil {
		if words := strings.Fields(string(out)); len(words) > 2 {
			ffmpeg = ", ffmpeg " + words[2]
		}
	}
	return fmt.Sprintf("%d cores%s, %s/%s, %s%s, load at the start %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version(), ffmpeg, Load())
}
