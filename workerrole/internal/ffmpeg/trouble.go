package ffmpeg

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"syscall"
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

// Dependency returns the kind. The code that decides about retries asks for this method
// with errors.As, and need not know this package.
func (e *DependencyError) Dependency() string { return e.Kind }

// fullDisk is what strerror says of ENOSPC and EDQUOT, at the end of a line. It
// is the only wording of ffmpeg (5.1) that is trouble: a muxer that cannot write
// has no other way to say so, and may still end with status 0.
var fullDisk = regexp.MustCompile(`(?m): (No space left on device|Disk quota exceeded)$`)

// signalled is ffmpeg's (5.1) exit status after a signal that it caught.
const signalled = 255

// environment turns the end of a run into trouble, or returns nil when the run
// ended by itself, whatever its status. err is what the run ended with.
func environment(state *os.ProcessState, l limits, stderr string, err error) error {
	if fullDisk.MatchString(stderr) {
		if err == nil {
			err = errors.New("writing a local file: no space left on device")
		}
		return surroundings(DiskDependency, err)
	}
	if l.metCPU(state) {
		return nil // our limit, whatever signal it ended with
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && foreign(status.Signal()) || state.ExitCode() == signalled {
		return surroundings(KilledChild, err)
	}
	return nil
}

// surroundings hides the RunError in err: the code that finds one takes it for
// evidence about the bytes.
func surroundings(kind string, err error) error {
	return &DependencyError{Kind: kind, Err: errors.New(err.Error())}
}

// foreign reports whether a signal came from outside: from the system that is
// out of memory, or from an operator who stops programs. A program that crashes, or
// meets one of our limits, is sent another by its own doing.
func foreign(signal syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}, signal)
}
