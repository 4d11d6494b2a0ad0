//go:build !linux

package ffmpeg

// impose does nothing here: no other system lets us limit a process that runs
// already. What is left is the limit of time and the caps on what it writes.
func (limits) impose(int) {}
