package ffmpeg

import (
	"os"
	"time"
)

// limits are what one run may take. The clock depends on the machine and its load; the
// rest depends on the bytes, so meeting it is evidence about them.
type limits struct {
	wall   time.Duration
	cpu    time.Duration // of all threads
	memory int64         // bytes of address space; never all of it is used
	file   int64         // bytes that it writes, in one file and in all together
}

// metCPU reports whether a run used up its processor time. The system's two counts differ.
func (l limits) metCPU(state *os.ProcessState) bool {
	return state != nil && state.UserTime()+state.SystemTime() >= l.cpu*4/5
}

// The kinds of run. Measured with ffmpeg 5.1 on two cores: the program alone has
// 270 MB of address space, the index of a film with a million frames 125 MB more.
// A container's tags are held in memory twice, whatever their size.
var (
	probing = limits{wall: 5 * time.Minute, cpu: 15 * time.Second, memory: 512 << 20, file: 1 << 20}
	// sounding decodes sound only.
	sounding = limits{wall: 2 * time.Hour, cpu: time.Hour, memory: 512 << 20, file: 1 << 30}
)

// copying returns the limits of a run that writes so many bytes, about as many as it reads.
func copying(bytes int64) limits {
	return limits{wall: time.Hour, cpu: 30 * time.Minute, memory: 1 << 30, file: bytes}
}

// bytesPerPixel is what a chunk needs for each pixel of the source: 200 were
// measured with 10-bit HEVC of 4096 × 2304, tone mapping and five renditions.
const bytesPerPixel = 320

// encodedBytes is more than twice what the bit rates of a chunk or a clip come to.
const encodedBytes = 512 << 20

// encoding returns the limits of a run that decodes and encodes pictures of this
// size. In the worst case it decodes from the start of a film of four hours.
func encoding(width, height int) limits {
	pixels := int64(min(width*height, maxPixels))
	return limits{wall: 2 * time.Hour, cpu: 2 * time.Hour, memory: 512<<20 + pixels*bytesPerPixel, file: encodedBytes}
}

// maxMetadata is how many bytes of a source the first look at it may read. A film has a few
// megabytes to read before its streams are known; what is beyond that are tags and attached
// files, which each program that reads the film keeps in memory. ffmpeg would go on without
// those for which it has none, and say nothing.
const maxMetadata = 192 << 20

// copyLimit is how many bytes a copy may have: containers differ by an eighth at most.
func copyLimit(bytes int64) int64 { return bytes + bytes/8 + 64<<20 }
