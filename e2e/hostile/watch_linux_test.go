package hostile_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
)

// watch looks at every program that the workers start, thirty times a second, at
// what it has open: files and connections. The system tells it in /proc.
type watch struct {
	s         *stack.Stack
	processes map[int]bool   // programs seen
	looks     int            // at programs
	files     map[string]int // paths that a program had open
	reached   map[netip.AddrPort]int
	sockets   map[string]bool // that were looked up
	scratch   int64           // the most that all scratch directories held, in bytes

	stop func()
}

// observe begins to watch the workers of s, whose scratch directories are in one folder.
func observe(t *testing.T, s *stack.Stack, scratch string) *watch {
	t.Helper()
	w := &watch{s: s, processes: map[int]bool{}, files: map[string]int{}, reached: map[netip.AddrPort]int{}, sockets: map[string]bool{}}
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(30 * time.Millisecond):
			}
			for _, worker := range s.Workers() {
				w.worker(s.Pid(worker))
			}
			if n%10 == 0 {
				w.scratch = max(w.scratch, size(scratch))
			}
		}
	})
	w.stop = sync.OnceFunc(func() {
		close(done)
		looking.Wait()
	})
	t.Cleanup(w.stop)
	return w
}

func size(dir string) (all int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				all += info.Size()
			}
		}
		return nil // files go away while we look
	})
	return all
}

func (w *watch) worker(pid int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, thread := range threads {
		list, _ := os.ReadFile(thread)
		for child := range strings.FieldsSeq(string(list)) {
			if id, err := strconv.Atoi(child); err == nil {
				w.program(id)
			}
		}
	}
}

func (w *watch) program(pid int) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || strings.HasPrefix(filepath.Base(program), "workerrole") {
		return // still a copy of the worker, which is about to become a program
	}
	descriptors := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return // it has ended
	}
	w.processes[pid] = true
	w.looks++
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(descriptors, e.Name()))
		if err != nil {
			continue
		}
		if socket, found := strings.CutPrefix(target, "socket:["); found {
			if w.sockets[socket] {
				continue
			}
			if peer, known := peerOf(pid, strings.TrimSuffix(socket, "]")); known { // it may not be connected yet
				w.sockets[socket] = true
				w.reached[peer]++
			}
			continue
		}
		w.files[target]++
	}
}

// peerOf is the other end of a TCP connection of a program, over IPv4 or IPv6.
func peerOf(pid int, inode string) (netip.AddrPort, bool) {
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[9] == inode {
				_ = file.Close()
				return address(fields[2])
			}
		}
		_ = file.Close()
	}
	return netip.AddrPort{}, false
}

// address reads what /proc/net/tcp writes: words of 32 bits in hexadecimal digits, in
// the order of the machine, which is little-endian wherever our tests run.
func address(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	n, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// check ends the watch and fails for every file outside of the scratch folder and the
// system's libraries, and for every connection but those to the worker's own reader of
// sources, which has a port of its own on loopback.
func (w *watch) check(t *testing.T, scratch string, others []netip.AddrPort) {
	t.Helper()
	w.stop()
	if len(w.processes) < 10 || w.looks < 10 || len(w.reached) == 0 {
		t.Errorf("too little was seen: %d programs in %d looks, %d connections", len(w.processes), w.looks, len(w.reached))
	}
	for _, worker := range w.s.Workers() {
		has := peak(t, w.s.Pid(worker))
		t.Logf("%s took %d MiB", worker, has>>20)
		if has > 256<<20 {
			t.Errorf("%s took %d MiB, want 256 at most", worker, has>>20)
		}
	}
	libraries := []string{"/lib/", "/lib64/", "/usr/lib/", "/usr/local/lib/", "/etc/ld.so.cache", "/usr/share/", "/sys/devices/system/", "/proc/", "/dev/null", "/opt/"}
	for path, times := range w.files {
		kind, _, other := strings.Cut(path, ":")
		if other && (kind == "pipe" || kind == "anon_inode") || strings.HasPrefix(path, scratch+"/") {
			continue
		}
		if !slices.ContainsFunc(libraries, func(root string) bool { return strings.HasPrefix(path, root) }) {
			t.Errorf("a program had %s open, in %d looks", path, times)
		}
	}
	for peer, times := range w.reached {
		if !peer.Addr().IsLoopback() && !peer.Addr().IsUnspecified() || slices.Contains(others, peer) {
			t.Errorf("a program was connected to %s, %d times", peer, times)
		}
	}
	t.Logf("watched %d programs in %d looks: %d files, %d connections; scratch held at most %d KiB", len(w.processes), w.looks, len(w.files), len(w.reached), w.scratch>>10)
}
