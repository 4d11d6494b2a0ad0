package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

// checkout is a state folder with the program that `make up` and `make down` run.
type checkout struct {
	program, dir string
	workers      string // WORKERS, or "" for the usual number
}

func newCheckout(t *testing.T) checkout {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	c := checkout{program: filepath.Join(t.TempDir(), "up"), dir: t.TempDir()}
	stacktest.CopyRoles(t, filepath.Join(c.dir, "bin"))
	if out, err := exec.Command("go", "build", "-o", c.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build up: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := c.run(context.Background(), "-down"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return c
}

func (c checkout) run(ctx context.Context, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append(flags, "-dir", c.dir)...)
	cmd.Env = append(stack.Environ(), "AZURITE_BLOB_PORT=0", "AZURITE_QUEUE_PORT=0", "AZURITE_TABLE_PORT=0",
		"WEBROLE_ADDR=127.0.0.1:0", "WEBROLE_ADMIN_ADDR=127.0.0.1:0", "WORKERROLE_ADMIN_ADDR=127.0.0.1:0",
		"WORKERS="+c.workers)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c checkout) must(t *testing.T, flags ...string) {
	t.Helper()
	if out, err := c.run(t.Context(), flags...); err != nil {
		t.Fatalf("up %v: %v\n%s", flags, err, out)
	}
}

// pid returns 0 when there is no such file.
func (c checkout) pid(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name+".pid"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

func (c checkout) pids(t *testing.T) map[string]string {
	t.Helper()
	pids := make(map[string]string)
	for _, name := range []string{stack.Azurite, stack.Web, stack.Worker(1), stack.Worker(2)} {
		if pids[name] = c.pid(t, name); pids[name] == "" {
			t.Errorf("no %s.pid", name)
		}
	}
	return pids
}

// running reports whether a process exists and is no zombie.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return exec.Command("kill", "-0", pid).Run() == nil && !isLinux()
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func isLinux() bool {
	_, err := os.Stat("/proc/self")
	return err == nil
}

// make up, a role that dies, make up again, make down: the pid files are true at
// every moment, and nothing is left.
func TestUpRestartsWhatDiesAndDownLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.must(t)
	before := c.pids(t)
	victim := stack.Worker(2)
	kill(t, before[victim])
	stacktest.Eventually(t, victim+" is back", func() bool {
		pid := c.pid(t, victim)
		return pid != "" && pid != before[victim] && running(pid)
	})
	c.must(t) // is up already: fine, and nothing starts twice
	after := c.pids(t)
	for name, pid := range before {
		if name != victim && after[name] != pid {
			t.Errorf("%s: pid %s, was %s", name, after[name], pid)
		}
	}
	c.must(t, "-down")
	for name, pid := range after {
		if running(pid) {
			t.Errorf("%s (pid %s) runs after down", name, pid)
		}
		if c.pid(t, name) != "" {
			t.Errorf("%s.pid is there after down", name)
		}
	}
	c.must(t, "-down") // nothing to do: fine
}

// A supervisor that is killed takes its children along, and up starts afresh.
func TestUpAfterTheSupervisorWasKilled(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.must(t)
	before := c.pids(t)
	supervisor := stack.Running(c.dir)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stacktest.Eventually(t, "the supervisor is gone", func() bool { return stack.Running(c.dir) == 0 })
	c.must(t)
	for name, pid := range c.pids(t) {
		if pid == before[name] {
			t.Errorf("%s kept pid %s", name, pid)
		}
		if running(before[name]) {
			t.Errorf("%s of the killed supervisor (pid %s) still runs", name, before[name])
		}
	}
}

func kill(t *testing.T, pid string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", "kill -9 "+pid).CombinedOutput(); err != nil {
		t.Fatalf("kill %s: %v %s", pid, err, out)
	}
}
