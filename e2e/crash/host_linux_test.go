package crash_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sickHost is the machine of one worker: its scratch, its ffmpeg, its limits.
type sickHost struct {
	*testing.T
	scratch, ffmpeg string
	pid             int
}

func (h *sickHost) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// own is the worker's scratch directory.
func (h *sickHost) own() string {
	h.Helper()
	dirs, err := filepath.Glob(filepath.Join(h.scratch, "cutroom-scratch-*"))
	if err != nil || len(dirs) != 1 {
		h.Fatalf("scratch directories: %v, %v", dirs, err)
	}
	return dirs[0]
}

// instead puts a program in ffmpeg's place and returns what puts ffmpeg back.
func (h *sickHost) instead(script string, mode os.FileMode) (mend func()) {
	h.Helper()
	h.must(os.Rename(h.ffmpeg, h.ffmpeg+".real"))
	h.must(os.WriteFile(h.ffmpeg, []byte(script), mode))
	return func() { h.must(os.Rename(h.ffmpeg+".real", h.ffmpeg)) }
}

// mount puts another file system over the worker's scratch and returns what takes it away.
// Where the system refuses that to a test the fault is left out, and the log says so.
func (h *sickHost) mount(options string, flags uintptr) (mend func()) {
	h.Helper()
	dir := h.own()
	if err := unix.Mount("none", dir, "tmpfs", flags, options); err != nil {
		h.Logf("NOT SHOWN: this system refuses a mount: %v", err)
		return nil
	}
	h.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return func() { h.must(unix.Unmount(dir, unix.MNT_DETACH)) }
}

// newSickHost starts a worker with a scratch and an ffmpeg of its own.
func newSickHost(t *testing.T, l *lane) (h *sickHost, worker string) {
	t.Helper()
	h = &sickHost{T: t, scratch: t.TempDir(), ffmpeg: filepath.Join(t.TempDir(), "ffmpeg")}
	program, err := exec.LookPath("ffmpeg")
	h.must(err)
	h.must(os.WriteFile(h.ffmpeg, []byte("#!/bin/sh\nexec "+program+` "$@"`+"\n"), 0o700)) //nolint:gosec // a program
	worker = l.worker("sick", "WORKERROLE_SCRATCH="+h.scratch, "FFMPEG_PATH="+h.ffmpeg)
	h.pid = l.Pid(worker)
	return h, worker
}

// healthy is the end of each test: the same worker is ready, and no attempt was charged.
func (h *sickHost) healthy(l *lane, worker, after string) {
	h.Helper()
	l.await(time.Minute, "ready again after "+after, func() bool { status, _ := l.readiness(worker); return status == http.StatusOK })
	if _, failed := l.troubles("sick"); failed != 0 {
		h.Errorf("%d attempts were charged", failed)
	}
	if l.Pid(worker) != h.pid {
		h.Error("the worker ended")
	}
}

// A worker whose host is sick fails no film: the items cost nothing, the worker is not
// ready and says why, and it goes on by itself when the host is well.
func TestSickHostFailsNoFilm(t *testing.T) {
	t.Parallel()
	l := newLane(t, 10*time.Second)
	h, worker := newSickHost(t, l)
	for _, fault := range []struct {
		name string
		says string // of the worker that is not ready; "" mends itself at once
		make func() (mend func())
	}{
		{"scratch is removed", "", func() func() {
			h.must(os.RemoveAll(h.own()))
			return func() {}
		}},
		{"scratch cannot be written", "disk", func() func() {
			dir := h.own()
			h.must(os.RemoveAll(dir))
			h.must(os.WriteFile(dir, nil, 0o600))
			return func() { h.must(os.Remove(dir)) }
		}},
		{"scratch is read-only", "disk", func() func() { return h.mount("", unix.MS_RDONLY) }},
		{"scratch has no inodes", "disk", func() func() { return h.mount("nr_inodes=1", 0) }},
		{"ffmpeg is gone", "host", func() func() {
			mend := h.instead("", 0o600)
			h.must(os.Remove(h.ffmpeg))
			return mend
		}},
		{"ffmpeg cannot be started", "host", func() func() { return h.instead("no program", 0o600) }},
		{"no more files", "", func() func() {
			var before unix.Rlimit
			h.must(unix.Prlimit(h.pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 8, Max: 1024}, &before))
			time.AfterFunc(5*time.Second, func() { _ = unix.Prlimit(h.pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}, nil) })
			return func() {}
		}},
	} {
		mend := fault.make()
		if mend == nil {
			continue
		}
		id := l.mustUpload(tiny)
		if fault.says != "" {
			l.notReady(worker, fault.says, fault.name)
		}
		mend()
		l.ready(id)
		h.healthy(l, worker, fault.name)
	}
	l.nothingLeft()
}

// An ffmpeg that hangs is found out after a minute without progress. Another worker makes
// the film meanwhile.
func TestHangingProgramFailsNoFilm(t *testing.T) {
	t.Parallel()
	l := newLane(t, 10*time.Second)
	h, worker := newSickHost(t, l)
	program, err := exec.LookPath("ffmpeg")
	h.must(err)
	mend := h.instead("#!/bin/sh\nexec "+program+" -nostdin -v quiet -re -f lavfi -i anullsrc -f null -\n", 0o700)
	id := l.mustUpload(tiny)
	l.await(3*time.Minute, "trouble because ffmpeg hangs", func() bool { troubled, _ := l.troubles("sick"); return troubled > 0 })
	l.worker("well")
	l.ready(id)
	mend()
	h.healthy(l, worker, "ffmpeg hangs")
	l.nothingLeft()
}

// notReady waits until a worker says that it is not ready, and why.
func (l *lane) notReady(worker, why, because string) {
	l.t.Helper()
	l.await(3*time.Minute, "not ready because "+because, func() bool {
		status, says := l.readiness(worker)
		return status == http.StatusServiceUnavailable && strings.Contains(says, why)
	})
}

// readiness is what a role says at /readyz.
func (l *lane) readiness(name string) (status int, says string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.AdminURL(name)+"/readyz", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	var b strings.Builder
	_ = res.Write(&b)
	return res.StatusCode, b.String()
}
