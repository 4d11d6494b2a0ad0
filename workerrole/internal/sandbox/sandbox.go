// Package sandbox starts programs that read strangers' bytes so that they can do little besides
// their work, whatever those bytes make of them: docs/patterns/safe-ffmpeg.md. A program is not
// started directly. This binary starts itself once more; the copy sets limits, gives up rights
// for good, and becomes the program. None of this needs root or a namespace, so it also works in
// a container. What a kernel lacks is said once, at the start (Open).
//
// Next: workerrole/internal/ffmpeg, which starts all its programs so.
package sandbox

import (
	"fmt"
	"strings"
	"time"
)

// Mode says what to do when the kernel cannot hold a program.
type Mode string

// The modes, as WORKERROLE_SANDBOX names them.
const (
	Required Mode = "required" // an error at start
	Try      Mode = "try"      // programs run with what the kernel has
	Off      Mode = "off"      // programs have limits only
)

// ParseMode reads a Mode.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Required, Try, Off:
		return mode, nil
	}
	return "", fmt.Errorf("%q is not required, try or off", text)
}

// FailedStatus is the exit status of a program that could not be held or started. It has said
// why on its stderr. ffmpeg has no such status.
const FailedStatus = 125

// Rules are what a program may do. Zero allows nothing; a limit of zero is none.
type Rules struct {
	Read    []string // files, also those in directories; may be missing
	Write   []string // directories, with what is in them; must exist
	Connect int      // TCP port, at whatever address: Landlock knows no addresses

	CPU    time.Duration // of all threads
	Memory int64         // bytes of address space
	File   int64         // bytes of the largest file that it writes
	Nice   int           // what is added to its priority, as nice(1) does it

	LimitsOnly bool // the rest is not looked at: set by Hold
}

// Sandbox holds programs, also several at once. The zero value and nil set limits only.
type Sandbox struct {
	holds   []string // what this kernel has
	missing []string // what programs are not held back from
	enabled bool
}

// Environment is all that a program is told by variables: no keys of ours. With an arena
// of glibc's malloc for each thread, 64 MiB of addresses each, ffmpeg 7, which has some
// twenty threads, would not start within the bound of its memory.
var Environment = []string{"MALLOC_ARENA_MAX=1"}

// Open finds out what this kernel can hold, or returns why that is not enough for mode.
func Open(mode Mode) (*Sandbox, error) {
	c := &Sandbox{}
	if mode == Off {
		c.missing = []string{"anything: it is switched off"}
		return c, nil
	}
	c.look()
	if mode == Required && len(c.missing) > 0 {
		return nil, fmt.Errorf("this system cannot hold %s", strings.Join(c.missing, ", nor "))
	}
	return c, nil
}

// Missing lists what programs are not held back from; nil when nothing is missing.
func (c *Sandbox) Missing() []string { return c.missing }

// String says what programs are held by.
func (c *Sandbox) String() string {
	text := "not held"
	if len(c.holds) > 0 {
		text = "held by " + strings.Join(c.holds, " and ")
	}
	if len(c.missing) > 0 {
		text += "; nothing holds " + strings.Join(c.missing, ", ")
	}
	return text
}
