package runner_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine/runner"
)

// scratchParent makes the test binary a worker that holds a scratch directory
// below the directory in this variable until it is killed.
const scratchParent = "CUTROOM_TEST_SCRATCH_PARENT"

func TestMain(m *testing.M) {
	parent := os.Getenv(scratchParent)
	if parent == "" {
		azuritetest.Main(m)
	}
	s, err := runner.MakeScratch(parent, slog.Default())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Dir)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the parent dies or kills it
}

// worker starts a process with a scratch directory and a file in it.
func worker(t *testing.T, parent string) (dir string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scratchParent+"="+parent)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // SIGKILL: it cannot clean up
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the worker does not come up: %v", err)
	}
	dir = line[:len(line)-1]
	if err := os.WriteFile(filepath.Join(dir, "half.mp4"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, kill
}

func mustBeThere(t *testing.T, dir string, want bool) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) == want {
		t.Errorf("%s: %v, want there = %t", filepath.Base(dir), err, want)
	}
}

// The owner of a directory is told by its lock and not by its process id: this
// process has two directories at once, and both are safe.
func TestScratchOfAKilledWorkerIsRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	start := func() *runner.Scratch {
		t.Helper()
		another, err := runner.MakeScratch(parent, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		return another
	}
	own, twin := start(), start()
	alive, _ := worker(t, parent)
	killed, kill := worker(t, parent)
	second := start()
	mustBeThere(t, killed, true)
	kill()
	third := start()
	mustBeThere(t, killed, false)
	for _, dir := range []string{own.Dir, twin.Dir, second.Dir, alive} {
		mustBeThere(t, dir, true)
	}
	if err := errors.Join(own.Close(), twin.Close(), second.Close(), third.Close()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 { // the living worker's directory
		t.Errorf("left: %v", left)
	}
}

// Each start sweeps. Many at the same moment lose no directory in use.
func TestScratchWhileOthersSweep(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				s, err := runner.MakeScratch(parent, slog.Default())
				if err != nil {
					t.Error(err)
					return
				}
				_, gone := os.Stat(s.Dir)
				if err := errors.Join(gone, s.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A cleaner of temporary files takes the directory of an idle worker. It is made again, and
// workers that start then leave it alone.
func TestScratchThatACleanerTookIsMadeAgain(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "new")
	s, err := runner.MakeScratch(parent, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(0); err != nil {
		t.Fatal(err)
	}
	mustBeThere(t, s.Dir, true)
	another, err := runner.MakeScratch(parent, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	mustBeThere(t, s.Dir, true)
	if err := errors.Join(another.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	mustBeThere(t, s.Dir, false)
}
