// Package memorytest bounds the memory of processes in tests, as a container does.
package memorytest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// Group is a control group of the kernel (cgroups(7)) with a bound on the memory of all
// its processes.
type Group struct{ dir, limit string }

var groups atomic.Int64

// NewGroup makes a group with a bound in bytes, which ends with the test. That needs root,
// and containers often show control groups read-only: then it returns an error.
func NewGroup(t *testing.T, memory int64) (*Group, error) {
	t.Helper()
	var problem error
	// Version 1 of the kernel's interface, and version 2.
	for _, kind := range []struct{ parent, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		g := &Group{filepath.Join(kind.parent, fmt.Sprintf("cutroom-test-%d-%d", os.Getpid(), groups.Add(1))), kind.limit}
		if err := os.Mkdir(g.dir, 0o755); err != nil { //nolint:gosec // as the kernel makes them
			problem = fmt.Errorf("make a control group: %w", err)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(g.dir) }) // its processes have ended
		if problem = g.Limit(memory); problem == nil {
			return g, nil
		}
	}
	return nil, problem
}

// Add moves a process into the group. What it starts afterwards is in it, too.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", int64(pid)) }

// Limit sets another bound, in bytes.
func (g *Group) Limit(memory int64) error { return g.write(g.limit, memory) }

func (g *Group) write(file string, value int64) error {
	// The kernel makes the files of a group: where one is missing the folder is no group.
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.FormatInt(value, 10))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("set %s of a control group: %w", file, err)
	}
	return nil
}

// Dir is where the kernel shows the group, for a process that is to join it by itself: see
// [Join].
func (g *Group) Dir() string { return g.dir }

// Join moves this process into the group that a directory shows.
func Join(dir string) error { return (&Group{dir: dir}).Add(os.Getpid()) }
