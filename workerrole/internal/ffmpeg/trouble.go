package ffmpeg

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// SourceDependency is trouble with reading the source.
const SourceDependency = "source"

// fullDisk is what strerror says of ENOSPC and EDQUOT, at the end of a line. It
// is the only wording of ffmpeg (5.1) that is trouble: a muxer that cannot write
// has no other way to say so, and may still end with status 0.
var fullDisk = regexp.MustCompile(`(?m): (No space left on device|Disk quota exceeded)$`)

// signalled is ffmpeg's (5.1) exit status after a signal that it caught.
const signalled = 255

// foreign are signals of a system that is out of memory, or of an operator. A program that
// crashes, or meets one of our limits, gets another.
var foreign = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// judge says what the end of a run means: err, and why the context has ended, if it has.
func (c command) judge(cause error, state *os.ProcessState, stderr string, err error) error {
	// What was too much is, also when the program ended well meanwhile.
	if cause != nil && (err != nil || errors.As(cause, new(*RunError))) {
		return cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return surroundings(azq.Host, fmt.Errorf("running %s: %w", c.name(), err))
	}
	if err != nil {
		err = c.failed(exit.ExitCode(), stderr)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case fullDisk.MatchString(stderr):
		return surroundings(azq.Disk, cmp.Or(err, error(syscall.ENOSPC)))
	case state.ExitCode() == sandbox.FailedStatus:
		return surroundings(azq.Host, err)
	case c.limits.metCPU(state): // our limit, whatever signal it ended with
		return err
	case status.Signaled() && slices.Contains(foreign, status.Signal()), state.ExitCode() == signalled:
		return surroundings(azq.Killed, err)
	}
	return err
}

// surroundings hides the RunError in err, which would be evidence about the bytes: the item is
// not to blame, and may be tried again at no cost.
func surroundings(dependency string, err error) error {
	return azq.Trouble(dependency, errors.New(err.Error()))
}

// limits are what one run may take. The clock depends on the machine and its load, so it is
// longer; the rest depends on the bytes, so meeting it is evidence about them.
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
	probing = limits{wall: 15 * time.Minute, cpu: 15 * time.Second, memory: 512 << 20, file: 1 << 20}
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
	return limits{wall: 3 * time.Hour, cpu: 2 * time.Hour, memory: 512<<20 + pixels*bytesPerPixel, file: encodedBytes}
}

// maxMetadata is how many bytes of a source the first look at it may read. A film has a few
// megabytes to read before its streams are known; what is beyond that are tags and attached
// files, which each program that reads the film keeps in memory. ffmpeg would go on without
// those for which it has none, and say nothing.
const maxMetadata = 192 << 20

// copyLimit is how many bytes a copy may have: containers differ by an eighth at most.
func copyLimit(bytes int64) int64 { return bytes + bytes/8 + 64<<20 }
