package ffmpeg

import "time"

// limits are what one run may take. Times of the clock depend on the machine and
// on others; the rest depends on the bytes alone, so meeting it is evidence
// about them.
type limits struct {
	wall   time.Duration
	cpu    time.Duration // of all threads
	memory int64         // bytes of address space, which is more than is ever used of it
	file   int64         // bytes of the largest file that it writes
}

// The kinds of run.
var (
	// probing takes 0.3 s and 270 MB of address space; a tag of a file is held in
	// memory as a whole.
	probing = limits{wall: 15 * time.Second, cpu: 15 * time.Second, memory: 512 << 20, file: 0}
	// encoding starts at the beginning of a film in the worst case.
	encoding = limits{wall: 2 * time.Hour, cpu: 2 * time.Hour, memory: 4 << 30, file: 4 << 30}
	// copying writes about what it reads: an upload, or the download.
	copying = limits{wall: time.Hour, cpu: time.Hour, memory: 1 << 30, file: 8 << 30}
)
