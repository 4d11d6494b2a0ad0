package ffmpeg

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Progress is what ffmpeg says about its work so far.
type Progress struct {
	Frames  int64         // video frames written by the first output
	OutTime time.Duration // media time of the output; meaningful for audio and copies
	Bytes   int64         // size of the first output
}

// RunError is a run of ffmpeg or ffprobe that ended with a non-zero status.
// It may be retried: whether the source is to blame is decided elsewhere.
type RunError struct {
	Program string
	Status  int // exit status; -1 when a signal ended it
	Report
}

func (e *RunError) Error() string {
	last := strings.TrimSpace(e.Stderr)
	if i := strings.LastIndexByte(last, '\n'); i >= 0 {
		last = last[i+1:]
	}
	return fmt.Sprintf("%s ended with status %d: %s", e.Program, e.Status, last)
}

// stderrTail is how many bytes of stderr are kept: a broken file can make
// ffmpeg write gigabytes.
const stderrTail = 64 << 10

// beforeFirstFrame is how long ffmpeg may read and decode without writing
// anything and still count as moving: a seek that must start far before the
// chunk produces nothing for a while.
const beforeFirstFrame = 5 * time.Minute

type command struct {
	path     string
	args     []string
	dir      string // working directory
	source   Source // for redaction
	stdout   io.Writer
	progress func(Progress) // parses stdout; called only when the work has moved
	nice     int            // how far it steps back for others when cores are short: 0 to 19
}

// audioNice is for sound, of which the first seconds are enough for a start.
const audioNice = 5

// niceOf says how far a chunk steps back for what a viewer waits for: probes and
// first chunks, then the second chunk, and so on. On a machine with nothing else
// to do that costs nothing. It must not be much: on a machine that others keep
// busy a process far back gets no time at all, and counts as stalled.
func niceOf(chunk int) int {
	if chunk == 0 {
		return 0
	}
	return 8 + min(chunk, 3)
}

// Report is what a run left behind besides its files.
type Report struct {
	Stderr string // the end of what it wrote, without addresses
}

var (
	network = regexp.MustCompile(`(?m)^\[(https?|tcp|tls) @ |Connection (timed out|refused|reset)|Input/output error|Server returned|Stream ends prematurely`)
	pastEnd = regexp.MustCompile(`(?m)^.*(HTTP error 416|Server returned 416|4XX Client Error, but not one of).*\n?`)
)

// NetworkTrouble reports whether the run complained about its connection. Then
// a result that is too short does not prove that the source is broken. (A
// request past the end of a file that was cut short is not such a complaint.)
func (r Report) NetworkTrouble() bool {
	return network.MatchString(pastEnd.ReplaceAllString(r.Stderr, ""))
}

// run starts the program in a process group of its own with an empty
// environment and waits for it. When ctx ends, the whole group is killed and
// the cause of ctx is returned.
func run(ctx context.Context, c command) (Report, error) {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = []string{} // no storage keys for a program that reads strangers' files
	tail := &tailBuffer{limit: stderrTail}
	cmd.Stderr = tail
	cmd.Stdout = c.stdout
	if c.progress != nil {
		cmd.Stdout = &progressWriter{report: c.progress, start: time.Now()}
	}
	ownGroup(cmd)
	cmd.WaitDelay = 5 * time.Second

	// The signal that ends a child with its parent is tied to the thread that
	// started it, so that thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := cmd.Start()
	if err == nil {
		if c.nice > 0 {
			stepBack(cmd.Process.Pid, c.nice)
		}
		err = cmd.Wait()
	}
	report := Report{Stderr: c.source.redact(tail.String())}
	if err == nil {
		return report, nil
	}
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return report, &RunError{Program: name(c.path), Status: exit.ExitCode(), Report: report}
	}
	return report, fmt.Errorf("running %s: %w", name(c.path), err)
}

func name(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 {
		return path[i+1:]
	}
	return path
}

// tailBuffer keeps the last limit bytes.
type tailBuffer struct {
	limit int
	buf   []byte
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > b.limit {
		p = p[len(p)-b.limit:]
	}
	if over := len(b.buf) + len(p) - b.limit; over > 0 {
		b.buf = append(b.buf[:0], b.buf[over:]...)
	}
	b.buf = append(b.buf, p...)
	return n, nil
}

func (b *tailBuffer) String() string { return string(bytes.ToValidUTF8(b.buf, []byte("?"))) }

// progressWriter reads the key=value lines of -progress.
type progressWriter struct {
	report    func(Progress)
	start     time.Time
	rest      []byte
	now, last Progress
}

func (w *progressWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		advance, line, _ := bufio.ScanLines(w.rest, false)
		if advance == 0 {
			break
		}
		key, value, _ := strings.Cut(string(line), "=")
		w.rest = w.rest[advance:]
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch {
		case key == "progress":
			w.block()
		case err != nil: // "N/A"
		case key == "frame":
			w.now.Frames = n
		case key == "out_time_us":
			w.now.OutTime = time.Duration(n) * time.Microsecond
		case key == "total_size":
			w.now.Bytes = n
		}
	}
	if len(w.rest) > stderrTail {
		w.rest = nil
	}
	return len(p), nil
}

// block ends one report. ffmpeg's loop reports after each packet it handled,
// so before the first frame a report in itself means that work moves.
func (w *progressWriter) block() {
	if w.now != w.last || (w.now.Frames == 0 && time.Since(w.start) < beforeFirstFrame) {
		w.last = w.now
		w.report(w.now)
	}
}
