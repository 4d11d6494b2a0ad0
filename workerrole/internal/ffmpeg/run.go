package ffmpeg

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// RunError is a run of ffmpeg or ffprobe that came to a bad end by itself, with
// every byte of the source that it wanted: evidence about those bytes, if they
// are a stranger's. What its surroundings did to it is a DependencyError.
type RunError struct {
	Program string
	Status  int    // exit status; -1 when it crashed or met one of our limits
	Stderr  string // the end of what it wrote, without addresses
}

func (e *RunError) Error() string {
	last := strings.TrimSpace(e.Stderr)
	if i := strings.LastIndexByte(last, '\n'); i >= 0 {
		last = last[i+1:]
	}
	return fmt.Sprintf("%s ended with status %d: %s", e.Program, e.Status, last)
}

const (
	// stderrTail is how many bytes of stderr are kept.
	stderrTail = 64 << 10
	// maxStderr ends a run: a broken file can make ffmpeg write gigabytes.
	maxStderr = 64 << 20
	// maxStdout ends a run whose output we keep: 64 streams take 34 KB.
	maxStdout = 1 << 20
	// maxLine is the longest line of output that is waited for.
	maxLine = 4 << 10
)

// firstFrameLimit is how long ffmpeg may read and decode without writing
// anything and still count as moving: a seek that must start far before the
// chunk produces nothing for a while.
const firstFrameLimit = 5 * time.Minute

type command struct {
	path    string
	args    []string
	dir     string    // working directory
	source  Source    // for redaction
	stdout  io.Writer // nil: it tells of its progress there
	limits  limits
	reads   []string         // files of ours, besides the source
	sandbox *sandbox.Sandbox // nil: started as it is
}

// rules are what the program may do besides using its processor time.
func (c command) rules() sandbox.Rules {
	r := sandbox.Rules{CPU: c.limits.cpu, Memory: c.limits.memory, File: c.limits.file}
	reads := c.reads
	if c.source.served != nil {
		r.Connect = c.source.served.port
	} else if !c.source.remote() {
		reads = append(reads, c.source.URL)
	}
	for _, path := range reads {
		if path != "" {
			r.Read = append(r.Read, absolute(path))
		}
	}
	if c.dir != "" {
		r.Write = []string{absolute(c.dir)}
	}
	return r
}

type niceKey struct{}

// WithNice returns a context whose programs leave the processor to others when cores are
// short: by, from 0 to 19, is added to their priority as nice(1) does it. On a machine with
// nothing else to do it costs nothing.
func WithNice(ctx context.Context, by int) context.Context {
	return context.WithValue(ctx, niceKey{}, by)
}

// NiceOf returns the number of [WithNice], 0 without it.
func NiceOf(ctx context.Context) int {
	by, _ := ctx.Value(niceKey{}).(int)
	return by
}

type progressKey struct{}

// WithProgress returns a context below which moved is called whenever the work of a program
// has moved, and while a program waits for a processor. It is called by several goroutines.
func WithProgress(ctx context.Context, moved func()) context.Context {
	return context.WithValue(ctx, progressKey{}, moved)
}

func progressOf(ctx context.Context) (moved func()) {
	if moved, is := ctx.Value(progressKey{}).(func()); is {
		return moved
	}
	return func() {}
}

func (t *Tool) run(ctx context.Context, c command) (stderr string, err error) {
	c.sandbox = t.sandbox
	ctx, end := span(ctx, name(c.path))
	stderr, err = run(ctx, c)
	end(err)
	return stderr, err
}

// run starts the program in a process group of its own with an empty
// environment and with limits, and waits for it. When ctx ends, the whole group
// is killed and the cause of ctx is returned. A read of the source that failed
// fails the run, whatever its status says.
func run(ctx context.Context, c command) (stderr string, _ error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.wall, &timeLimitError{program: name(c.path), limit: c.limits.wall})
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer c.source.served.watch(stop)()

	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = sandbox.Environment // no storage keys for a program that reads strangers' files
	tooMuch := func() { stop(c.failed(-1, "it wrote too much")) }
	tail := &tailBuffer{limit: stderrTail}
	cmd.Stderr = &capped{Writer: tail, left: maxStderr, over: tooMuch}
	cmd.Stdout = c.output(progressOf(ctx), tooMuch)
	ownGroup(cmd)
	cmd.WaitDelay = 5 * time.Second

	filled := c.watchDir(ctx, tooMuch)
	cageFailed, err := c.startAndWait(ctx, cmd)
	filled()
	stderr = c.source.redact(tail.String())
	if cageErr := cageFailed(); cageErr != nil && ctx.Err() == nil {
		return stderr, &DependencyError{Kind: HostDependency, Err: fmt.Errorf("starting %s in its sandbox: %w", name(c.path), cageErr)}
	}
	if trouble := c.source.served.trouble(); trouble != nil {
		return stderr, trouble
	}
	// What was too much is, also when the program ended well meanwhile.
	if cause := context.Cause(ctx); cause != nil && (err != nil || errors.As(cause, new(*RunError))) {
		if errors.As(cause, new(*timeLimitError)) && c.limits.metCPU(cmd.ProcessState) {
			return stderr, c.failed(-1, stderr)
		}
		return stderr, cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		err = fmt.Errorf("running %s: %w", name(c.path), err)
		if cmd.Process == nil {
			err = &DependencyError{Kind: HostDependency, Err: err}
		}
		return stderr, err
	}
	if err != nil {
		err = c.failed(exit.ExitCode(), stderr)
	}
	if trouble := environment(cmd.ProcessState, c.limits, stderr, err); trouble != nil {
		return stderr, trouble
	}
	return stderr, err
}

// startAndWait runs cmd in the sandbox. The function tells whether the sandbox is why it failed.
func (c command) startAndWait(ctx context.Context, cmd *exec.Cmd) (cageFailed func() error, err error) {
	// The signal that ends a child with its parent is tied to the thread that
	// started it, so that thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cageFailed, held, err := c.sandbox.Hold(cmd, c.rules())
	if err != nil {
		return func() error { return err }, err
	}
	if err = cmd.Start(); err != nil {
		return cageFailed, err
	}
	if !held {
		c.limits.impose(cmd.Process.Pid)
	}
	if by := NiceOf(ctx); by > 0 {
		renice(cmd.Process.Pid, by)
	}
	moves := func() int { return 0 }
	if w, tells := cmd.Stdout.(*progressWriter); tells {
		moves = w.moves
	}
	defer watchStarved(cmd.Process.Pid, starvedLook, starvedCPU, moves, progressOf(ctx))()
	err = cmd.Wait()
	spent(ctx, cmd.ProcessState)
	return cageFailed, err
}

func (c command) failed(status int, stderr string) error {
	return &RunError{Program: name(c.path), Status: status, Stderr: stderr}
}

// output is where stdout goes; tooMuch is called when there is more than we keep.
func (c command) output(moved, tooMuch func()) io.Writer {
	if c.stdout == nil {
		return &progressWriter{report: moved, start: time.Now()}
	}
	if buffer, kept := c.stdout.(*bytes.Buffer); kept {
		return &capped{Writer: buffer, left: maxStdout, over: tooMuch}
	}
	return c.stdout
}

// timeLimitError says that a run took too long by the clock, though not too much
// processor time. That may be the machine's doing, so it is no evidence about the bytes.
type timeLimitError struct {
	program string
	limit   time.Duration
}

// Dependency is that of a killed program, which is bounded: a program may also wait for ever.
func (e *timeLimitError) Dependency() string { return KilledChild }

func (e *timeLimitError) Error() string {
	return fmt.Sprintf("%s took more than %s", e.program, e.limit)
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

// capped passes on what is written, and calls over, once, when it is too much.
type capped struct {
	io.Writer
	left int
	over func()
}

func (c *capped) Write(p []byte) (int, error) {
	if c.left < len(p) {
		c.over()
		return len(p), nil // the run is being ended; the rest is dropped
	}
	c.left -= len(p)
	return c.Writer.Write(p)
}

func (b *tailBuffer) String() string { return string(bytes.ToValidUTF8(b.buf, []byte("?"))) }

// progressWriter reads the key=value lines of -progress.
type progressWriter struct {
	report func()
	start  time.Time
	rest   []byte
	now    progress

	mu    sync.Mutex
	last  progress
	moved int
}

// progress is what ffmpeg says about its work so far.
type progress struct{ frames, outTime, bytes int64 }

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
			w.now.frames = n
		case key == "out_time_us":
			w.now.outTime = n
		case key == "total_size":
			w.now.bytes = n
		}
	}
	if len(w.rest) > maxLine {
		w.rest = nil
	}
	return len(p), nil
}

// block ends one report. ffmpeg's loop reports after each packet it handled,
// so before the first frame a report in itself means that work moves.
func (w *progressWriter) block() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != w.last || (w.now.frames == 0 && time.Since(w.start) < firstFrameLimit) {
		w.last = w.now
		w.moved++
		w.report()
	}
}

// moves is how often the work has moved.
func (w *progressWriter) moves() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}
