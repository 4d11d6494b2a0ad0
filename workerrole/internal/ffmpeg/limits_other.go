//go:build !linux

package ffmpeg

import "os"

// impose does nothing here: no other system lets us limit a process that runs
// already. What is left is the limit of time and the caps on what it writes.
func (limits) impose(int) {}

// peakMemory is not known: systems count it in different units.
func peakMemory(*os.ProcessState) int64 { return 0 }
