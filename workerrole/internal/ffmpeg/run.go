package ffmpeg

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	ff "github.com/u2takey/ffmpeg-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// RunError is a run of ffmpeg or ffprobe that came to a bad end by itself, with
// every byte of the source that it wanted: evidence about those bytes, if they
// are a stranger's. What its surroundings did to it is trouble (azq.Trouble).
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
	path   string
	args   []string
	dir    string    // working directory
	source Source    // for redaction
	stdout io.Writer // nil: it tells of its progress there
	limits limits
	reads  []string // files of ours, besides the source
}

// rules are what the program may do besides using its processor time.
func (c command) rules(nice int) sandbox.Rules {
	r := sandbox.Rules{CPU: c.limits.cpu, Memory: c.limits.memory, File: c.limits.file, Nice: nice}
	reads := c.reads
	if c.source.served != nil {
		r.Connect = c.source.served.port
	} else {
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

// ffmpeg runs ffmpeg with global options and a command line of ffmpeg-go.
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

// run starts the program in the sandbox and in a process group of its own, with an empty
// environment and with limits, and waits for it. When ctx ends, the whole group is killed
// and the cause of ctx is returned. A read of the source that failed fails the run, whatever
// its status says. A span has no arguments: they hold paths of the machine.
func (t *Tool) run(ctx context.Context, c command) (stderr string, err error) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		var span trace.Span
		ctx, span = tracer.Start(ctx, c.name(), trace.WithAttributes(attribute.String("process.executable.name", c.name())))
		defer func() {
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}()
	}
	overtime := fmt.Errorf("%s took more than %s by the clock", c.name(), c.limits.wall)
	// That of a killed program is bounded: a program may also wait for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.wall, azq.Trouble(azq.Killed, overtime))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if s := c.source.served; s != nil {
		defer context.AfterFunc(s.failed, func() { stop(s.trouble()) })()
	}
	tooMuch := func() { stop(c.failed(-1, "it wrote too much")) }
	var tail tailBuffer
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Stderr = &capped{Writer: &tail, left: maxStderr, over: tooMuch}
	runs := RunsOf(ctx)
	filled := c.watchDir(runs, tooMuch)
	err = t.startAndWait(c, cmd, runs, tooMuch)
	filled()
	stderr = c.source.redact(tail.String())
	if trouble := c.source.served.trouble(); trouble != nil {
		return stderr, trouble
	}
	return stderr, c.judge(context.Cause(ctx), cmd.ProcessState, stderr, err)
}

// startAndWait runs cmd, of which all but its stderr is still to be set.
func (t *Tool) startAndWait(c command, cmd *exec.Cmd, runs *Runs, tooMuch func()) error {
	cmd.Dir = c.dir
	cmd.Env = sandbox.Environment // no storage keys for a program that reads strangers' files
	progress := newProgress(runs.Moved)
	cmd.Stdout = c.stdout
	if c.stdout == nil {
		cmd.Stdout = progress
	} else if buffer, kept := c.stdout.(*bytes.Buffer); kept {
		cmd.Stdout = &capped{Writer: buffer, left: maxStdout, over: tooMuch}
	}
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) // it may have left its group
	}
	cmd.WaitDelay = 5 * time.Second

	// The signal that ends a child with its parent is tied to the thread that
	// started it, so that thread must live until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.sandbox.Hold(cmd, c.rules(runs.Nice))
	if err := cmd.Start(); err != nil {
		return err
	}
	defer watchStarved(cmd.Process.Pid, starvedLook, starvedCPU, progress.moved.Load, progress.report)()
	err := cmd.Wait()
	runs.add(func(u *runner.Programs) {
		u.Runs++
		u.CPU += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if used, known := cmd.ProcessState.SysUsage().(*syscall.Rusage); known && runtime.GOOS == "linux" {
			u.Memory = max(u.Memory, used.Maxrss<<10) // of macOS it is not in KiB
		}
	})
	return err
}

func (c command) failed(status int, stderr string) error {
	return &RunError{Program: c.name(), Status: status, Stderr: stderr}
}

func (c command) name() string { return filepath.Base(c.path) }

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

// Runs are the programs that run below one context. Fields are set before the first starts.
type Runs struct {
	// Nice, from 0 to 19, is added to the priority of programs as nice(1) does it, so that
	// they leave the processor to others when cores are short.
	Nice int
	// Moved is called, also by several goroutines at once, whenever the work of a program
	// has moved, and while a program waits for a processor.
	Moved func()

	mu    sync.Mutex
	usage runner.Programs
}

type runsKey struct{}

// WithRuns returns a context, and the runs below it.
func WithRuns(ctx context.Context) (context.Context, *Runs) {
	r := RunsOf(context.Background())
	return context.WithValue(ctx, runsKey{}, r), r
}

// RunsOf returns the runs of [WithRuns], or others for a context without.
func RunsOf(ctx context.Context) *Runs {
	if r, found := ctx.Value(runsKey{}).(*Runs); found {
		return r
	}
	return &Runs{Moved: func() {}}
}

// Usage is what the programs took that have ended, killed or not. This process takes processor
// time, too, but its threads serve several items at once. A program begins in the sandbox as a
// copy of this one, which has memory of its own; where the system does not say it is 0.
func (r *Runs) Usage() runner.Programs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

func (r *Runs) add(change func(*runner.Programs)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.usage)
}
