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

	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// Kinds of trouble: what a run met that says nothing about the bytes.
const (
	SourceDependency = "source" // the source could not be read
	DiskDependency   = "disk"   // a local file cannot be made, or no space is left
	HostDependency   = "host"   // the program cannot be started
	KilledChild      = "killed" // a signal that we did not send ended the program, or it took too long by the clock
)

// DependencyError says that a run failed because of its surroundings. The item is
// not to blame: it may be tried again at no cost.
type DependencyError struct {
	Kind string // one of the kinds above
	Err  error
}

func (e *DependencyError) Error() string { return e.Err.Error() }

func (e *DependencyError) Unwrap() error { return e.Err }

// Dependency returns the kind, also to code that does not know this package.
func (e *DependencyError) Dependency() string { return e.Kind }

// fullDisk is what strerror says of ENOSPC and EDQUOT, at the end of a line. It
// is the only wording of ffmpeg (5.1) that is trouble: a muxer that cannot write
// has no other way to say so, and may still end with status 0.
var fullDisk = regexp.MustCompile(`(?m): (No space left on device|Disk quota exceeded)$`)

// signalled is ffmpeg's (5.1) exit status after a signal that it caught.
const signalled = 255

// errOvertime: a run took too long by the clock, which may be the machine's doing.
var errOvertime = errors.New("by the clock")

// foreign are signals of a system that is out of memory, or of an operator. A program that
// crashes, or meets one of our limits, gets another.
var foreign = []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// judge says what the end of a run means: err, and why the context has ended, if it has.
func (c command) judge(cause error, state *os.ProcessState, stderr string, err error) error {
	// What was too much is, also when the program ended well meanwhile.
	if cause != nil && (err != nil || errors.As(cause, new(*RunError))) {
		if errors.Is(cause, errOvertime) && c.limits.metCPU(state) {
			return c.failed(-1, stderr)
		}
		return cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return surroundings(HostDependency, fmt.Errorf("running %s: %w", c.name(), err))
	}
	if err != nil {
		err = c.failed(exit.ExitCode(), stderr)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case fullDisk.MatchString(stderr):
		return surroundings(DiskDependency, cmp.Or(err, error(syscall.ENOSPC)))
	case state.ExitCode() == sandbox.FailedStatus:
		return surroundings(HostDependency, err)
	case c.limits.metCPU(state): // our limit, whatever signal it ended with
		return err
	case status.Signaled() && slices.Contains(foreign, status.Signal()), state.ExitCode() == signalled:
		return surroundings(KilledChild, err)
	}
	return err
}

// surroundings hides the RunError in err, which would be evidence about the bytes.
func surroundings(kind string, err error) error {
	return &DependencyError{Kind: kind, Err: errors.New(err.Error())}
}
