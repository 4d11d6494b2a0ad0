package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// quotaPeriod is the kernel's default: a group that has used its share of these
// microseconds waits for the next ones.
const quotaPeriod = 100_000

// quotas makes control groups that hold processes to a part of a core. Both
// versions of the kernel's interface occur.
type quotas struct {
	parent  string // folder of the group that ours are made in
	version int
	made    []string
}

// openQuotas finds the interface. An error says why it cannot be used here.
func openQuotas() (*quotas, error) {
	const mount = "/sys/fs/cgroup"
	q := &quotas{version: 1, parent: filepath.Join(mount, "cpu", ownGroup())}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		q.version, q.parent = 2, mount
		// Children may have a quota only if the parent hands the controller down.
		if err := os.WriteFile(filepath.Join(mount, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			return nil, fmt.Errorf("control groups (version 2) cannot be given a CPU quota, root is needed: %w", err)
		}
	} else if _, err := os.Stat(filepath.Join(q.parent, "cpu.cfs_quota_us")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for control groups: %w", err)
	} else if _, err := os.Stat(filepath.Join(q.parent, "cgroup.procs")); err != nil {
		return nil, errors.New("this system has no control groups for CPU time at " + mount)
	}
	// Try: inside a container the files may be there and read-only.
	if _, err := q.group("try", 1); err != nil {
		q.remove()
		return nil, fmt.Errorf("control groups cannot be made, root is needed: %w", err)
	}
	return q, nil
}

// ownGroup is the CPU group (version 1) that this process is in, "/" at the top:
// what was given to us is for our children, too. Inside a container the path may
// be the host's, and not exist; then it is the top.
func ownGroup() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "/"
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // 1:cpu,cpuacct:/path
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), "cpu") {
			if _, err := os.Stat(filepath.Join("/sys/fs/cgroup/cpu", parts[2])); err == nil {
				return parts[2]
			}
		}
	}
	return "/"
}

// group makes a control group whose processes together get so many cores.
func (q *quotas) group(name string, cores float64) (string, error) {
	dir := filepath.Join(q.parent, fmt.Sprintf("cutroom-bench-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a control group: %w", err)
	}
	q.made = append(q.made, dir)
	quota := strconv.Itoa(int(cores * quotaPeriod))
	var err error
	if q.version == 2 {
		err = os.WriteFile(filepath.Join(dir, "cpu.max"), []byte(quota+" "+strconv.Itoa(quotaPeriod)), 0)
	} else {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(quotaPeriod)), 0),
			os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(quota), 0))
	}
	if err != nil {
		return "", fmt.Errorf("set a CPU quota: %w", err)
	}
	return dir, nil
}

// hold puts a process, and what it starts from now on, into a group of its own.
func (q *quotas) hold(pid int, cores float64) error {
	dir, err := q.group(strconv.Itoa(pid), cores)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("put process %d into a control group: %w", pid, err)
	}
	return nil
}

// remove removes the groups. Their processes must have ended.
func (q *quotas) remove() {
	for _, dir := range q.made {
		_ = os.Remove(dir) // a group that still holds a process stays: it costs nothing
	}
	q.made = nil
}
