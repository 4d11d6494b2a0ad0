package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	ff "github.com/u2takey/ffmpeg-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/shared/tracing"
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
	return fmt.Sprintf("%s ended with status %d: %s", e.Program, e.Status, last[strings.LastIndexByte(last, '\n')+1:])
}

const (
	// stderrTail is how many bytes of stderr are kept.
	stderrTail = 64 << 10
	// maxStderr ends a run: a broken file can make ffmpeg write gigabytes.
	maxStderr = 64 << 20
	// maxStdout ends a run whose output we keep: 64 streams take 34 KB.
	maxStdout = 1 << 20
)

type command struct {
	path    string
	args    []string
	dir     string    // working directory
	source  Source    // for redaction
	stdout  io.Writer // nil: it tells of its progress there
	limits  limits
	reads   []string         // files of ours, besides the source
	sandbox *sandbox.Sandbox // nil: with limits only
}

// rules are what the program may do besides using its processor time.
func (c command) rules(nice int) sandbox.Rules {
	r := sandbox.Rules{CPU: c.limits.cpu, Memory: c.limits.memory, File: c.limits.file, Nice: nice}
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

// ffmpeg runs ffmpeg with options for all of it and a command line of ffmpeg-go. An error
// says what was being done.
func (t *Tool) ffmpeg(ctx context.Context, doing string, c command, line *ff.Stream, options ...string) (stderr string, err error) {
	globals := []string{
		"-nostdin", "-hide_banner", "-v", "error", "-y",
		"-progress", "pipe:1", "-nostats", "-stats_period", "0.5",
		"-filter_complex_threads", "1",
	}
	c.path, c.args = t.FFmpeg, slices.Concat(globals, options, line.GetArgs())
	if stderr, err = t.run(ctx, c); err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return stderr, err
}

var tracer = otel.Tracer("ffmpeg")

// run is run in the sandbox, as a span when it belongs to a trace. The arguments are not
// traced: they hold paths of the machine.
func (t *Tool) run(ctx context.Context, c command) (stderr string, err error) {
	c.sandbox = t.sandbox
	if !tracing.HasSpan(ctx) {
		return run(ctx, c)
	}
	ctx, span := tracer.Start(ctx, c.name(), trace.WithAttributes(attribute.String("process.executable.name", c.name())))
	defer span.End()
	if stderr, err = run(ctx, c); err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return stderr, err
}

// errOvertime says that a run took too long by the clock, though not too much processor
// time. That may be the machine's doing, so it is no evidence about the bytes.
var errOvertime = errors.New("by the clock")

// run starts the program in a process group of its own with an empty
// environment and with limits, and waits for it. When ctx ends, the whole group
// is killed and the cause of ctx is returned. A read of the source that failed
// fails the run, whatever its status says.
func run(ctx context.Context, c command) (stderr string, _ error) {
	overtime := fmt.Errorf("%s took more than %s %w", c.name(), c.limits.wall, errOvertime)
	// That of a killed program is bounded: a program may also wait for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.wall, &DependencyError{Kind: KilledChild, Err: overtime})
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s := c.source.served; s != nil {
		defer context.AfterFunc(s.failed, func() { stop(s.trouble()) })()
	}

	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = sandbox.Environment // no storage keys for a program that reads strangers' files
	tooMuch := func() { stop(c.failed(-1, "it wrote too much")) }
	var tail tailBuffer
	cmd.Stderr = &capped{Writer: &tail, left: maxStderr, over: tooMuch}
	runs := RunsOf(ctx)
	progress := newProgress(runs.Moved)
	cmd.Stdout = c.stdout
	if c.stdout == nil {
		cmd.Stdout = progress
	} else if buffer, kept := c.stdout.(*bytes.Buffer); kept {
		cmd.Stdout = &capped{Writer: buffer, left: maxStdout, over: tooMuch}
	}
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have left its group
	}
	cmd.WaitDelay = 5 * time.Second

	filled := c.watchDir(runs, tooMuch)
	cageFailed, err := c.startAndWait(runs, cmd, progress)
	filled()
	stderr = c.source.redact(tail.String())
	if cageErr := cageFailed(); cageErr != nil && ctx.Err() == nil {
		return stderr, &DependencyError{Kind: HostDependency, Err: fmt.Errorf("starting %s in its sandbox: %w", c.name(), cageErr)}
	}
	if trouble := c.source.served.trouble(); trouble != nil {
		return stderr, trouble
	}
	return stderr, c.judge(context.Cause(ctx), cmd, stderr, err)
}

// judge says what the end of a run means: err, and why the context has ended, if it has.
func (c command) judge(cause error, cmd *exec.Cmd, stderr string, err error) error {
	// What was too much is, also when the program ended well meanwhile.
	if cause != nil && (err != nil || errors.As(cause, new(*RunError))) {
		if errors.Is(cause, errOvertime) && c.limits.metCPU(cmd.ProcessState) {
			return c.failed(-1, stderr)
		}
		return cause
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		err = fmt.Errorf("running %s: %w", c.name(), err)
		if cmd.Process == nil {
			err = &DependencyError{Kind: HostDependency, Err: err}
		}
		return err
	}
	if err != nil {
		err = c.failed(exit.ExitCode(), stderr)
	}
	if trouble := environment(cmd.ProcessState, c.limits, stderr, err); trouble != nil {
		return trouble
	}
	return err
}

// startAndWait runs cmd in the sandbox. The function tells whether the sandbox is why it failed.
func (c command) startAndWait(runs *Runs, cmd *exec.Cmd, progress *progressWriter) (cageFailed func() error, err error) {
	// The signal that ends a child with its parent is tied to the thread that
	// started it, so that thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cageFailed, err = c.sandbox.Hold(cmd, c.rules(runs.Nice))
	if err != nil {
		return func() error { return err }, err
	}
	if err = cmd.Start(); err != nil {
		return cageFailed, err
	}
	defer watchStarved(cmd.Process.Pid, starvedLook, starvedCPU, progress.moved.Load, progress.report)()
	err = cmd.Wait()
	runs.add(func(u *Usage) { u.add(cmd.ProcessState) })
	return cageFailed, err
}

func (c command) failed(status int, stderr string) error {
	return &RunError{Program: c.name(), Status: status, Stderr: stderr}
}

func (c command) name() string { return filepath.Base(c.path) }

// tailBuffer keeps the end of what is written.
type tailBuffer struct{ bytes []byte }

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.bytes = append(b.bytes, p...)
	b.bytes = slices.Delete(b.bytes, 0, max(0, len(b.bytes)-stderrTail))
	return len(p), nil
}

func (b *tailBuffer) String() string { return string(bytes.ToValidUTF8(b.bytes, []byte("?"))) }

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
