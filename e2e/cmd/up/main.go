// Command up keeps Cutroom running in the background: `make up`, `make down`, `make reset`.
//
// `up` starts a copy of itself in a session of its own, the supervisor, and
// returns when everything is ready. The supervisor holds the stack (package
// stack) and starts again what dies. lab.go gives the stack its lab.
// `up -down` asks it to drain and waits, and `up -reset` asks it, or a `make demo`, to start anew
// and empty.
//
// Next: e2e/stack.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
)

func main() {
	down := flag.Bool("down", false, "stop what up started")
	reset := flag.Bool("reset", false, "start it anew and empty")
	supervise := flag.Bool("supervise", false, "be the supervisor (up starts it)")
	dir := flag.String("dir", "", "folder of the state (default .run in the repository)")
	flag.Parse()
	if err := run(*dir, *down, *reset, *supervise); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

func run(dir string, down, reset, supervise bool) error {
	if dir == "" {
		root, err := stack.Root()
		if err != nil {
			return err
		}
		dir = filepath.Join(root, ".run")
	}
	switch {
	case supervise:
		return beSupervisor(dir)
	case down:
		return stop(dir)
	case reset:
		return empty(dir)
	default:
		return start(dir)
	}
}

// Lines that the supervisor sends to `up` through a pipe; everything else is
// shown to the user.
const (
	readyLine  = "@ready"
	failedLine = "@failed"
)

// reportFD is the pipe's descriptor in the supervisor.
const reportFD = 3

func start(dir string) error {
	if pid := stack.Running(dir); pid != 0 {
		fmt.Printf("it is up already (pid %d), with the code it was started with; `make down` stops it\n", pid)
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the state: %w", err)
	}
	if err := cleanUp(dir); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "supervisor.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	reports, send, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer func() { _ = reports.Close() }()
	cmd := exec.Command(program, "-supervise", "-dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{send}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // survives this terminal
	err = cmd.Start()
	_ = send.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	// Ctrl-C while it starts: stop the supervisor, too.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}()
	return relay(reports)
}

// relay shows what the supervisor reports until it is ready or gives up.
func relay(reports io.Reader) error {
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		switch line := lines.Text(); line {
		case readyLine:
			return nil
		case failedLine:
			return errors.New("it did not start; the reason is above")
		default:
			fmt.Println(line)
		}
	}
	return errors.New("the supervisor ended; its log, .run/supervisor.log, says why")
}

// startStack is replaced by a file that adds to the stack.
var startStack = stack.Start

func beSupervisor(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	report := os.NewFile(reportFD, "report")
	if report == nil {
		return errors.New("-supervise is for up itself")
	}
	syscall.CloseOnExec(reportFD) // the roles must not keep the pipe open
	options, err := stack.FromEnv(os.Getenv)
	var s *stack.Stack
	if err == nil {
		options.Dir = dir
		options.Log = &tee{always: os.Stderr, first: report}
		s, err = startStack(ctx, options)
	}
	if err != nil {
		_, _ = fmt.Fprintf(report, "%v\n%s\n", err, failedLine)
		return err
	}
	_, _ = fmt.Fprintf(report, "Cutroom is up at %s ; `make down` stops it, .run/*.log is what it says\n%s\n", s.BaseURL(), readyLine)
	_ = report.Close()
	return s.Keep(ctx, options, startStack)
}

// tee writes to both until the first has gone away.
type tee struct{ always, first io.Writer }

func (t *tee) Write(b []byte) (int, error) {
	if t.first != nil {
		if _, err := t.first.Write(b); err != nil {
			t.first = nil
		}
	}
	stamp := time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")
	if _, err := io.WriteString(t.always, stamp); err != nil {
		return 0, fmt.Errorf("write the supervisor's log: %w", err)
	}
	return t.always.Write(b)
}

// stopTimeout is longer than a role may drain and Azurite may write.
const stopTimeout = 90 * time.Second

func stop(dir string) error {
	pid := stack.Running(dir)
	if pid == 0 {
		if err := cleanUp(dir); err != nil {
			return err
		}
		fmt.Println("nothing is up in this checkout")
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("ask the supervisor (pid %d) to stop: %w", pid, err)
	}
	deadline := time.Now().Add(stopTimeout)
	for stack.Running(dir) != 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("the supervisor (pid %d) is still draining after %v; .run/supervisor.log says what it waits for", pid, stopTimeout)
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("stopped; .run/data keeps the videos for the next `make up`")
	return nil
}

// empty removes what the stack of dir has stored, and keeps it running if it is.
func empty(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	begun := time.Now()
	running, err := stack.Reset(ctx, dir)
	switch {
	case err != nil:
		return err
	case running:
		fmt.Printf("empty, and up again after %.1f s; ticks of the path are in each browser's cookie\n", time.Since(begun).Seconds())
	default:
		fmt.Println("empty; nothing is up in this checkout")
	}
	return nil
}

// cleanUp is for a supervisor that was killed: it stops children that lived on
// (they do not on Linux) and removes stale pid files. A pid is
// believed only when the process runs a program of this checkout.
func cleanUp(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	if err != nil {
		return fmt.Errorf("find pid files: %w", err)
	}
	for _, file := range files {
		var pid int
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a pid file: %w", err)
		}
		if _, err := fmt.Sscan(string(text), &pid); err == nil && ours(pid, dir) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			for deadline := time.Now().Add(30 * time.Second); ours(pid, dir) && time.Now().Before(deadline); {
				time.Sleep(50 * time.Millisecond)
			}
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove a pid file: %w", err)
		}
	}
	return nil
}

// ours reports whether process pid was started from this state folder: the
// roles are run from its bin/, Azurite keeps its data in it.
func ours(pid int, dir string) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil { // no such process, or no /proc
		command, err = exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	return err == nil && strings.Contains(string(command), dir+string(filepath.Separator))
}
