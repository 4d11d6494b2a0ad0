package ffmpeg

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

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
