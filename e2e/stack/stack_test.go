package stack_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// alive asks a role's admin listener.
func alive(t *testing.T, s *stack.Stack, name string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.AdminURL(name)+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := h.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// TestOperationsOnTheStacksOneAddress: what uses a stack finds the operator's routes on
// its public address, on every web role, unless the one who started it decided otherwise or
// lets others in without a token. Metrics are never there.
func TestOperationsOnTheStacksOneAddress(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{})
	web := func(env ...string) string {
		name, err := s.AddWeb(t.Context(), env...)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	const token = "WEBROLE_TOKEN=a-token-of-enough-letters"
	for _, c := range []struct {
		about, name string
		status      int
	}{
		{"the first", stack.Web, http.StatusOK},
		{"another", web(), http.StatusOK},
		{"an empty variable is none", web("WEBROLE_PUBLIC_OPS="), http.StatusOK},
		{"switched off", web("WEBROLE_PUBLIC_OPS=off"), http.StatusNotFound},
		{"with a name", web("WEBROLE_HOSTS=video.example.org"), http.StatusNotFound},
		{"behind a proxy", web("WEBROLE_TRUSTED_PROXIES=192.0.2.1"), http.StatusNotFound},
		{"with a name and a token", web("WEBROLE_HOSTS=video.example.org", token), http.StatusOK},
	} {
		for path, want := range map[string]int{"/api/v1/ops/queues": c.status, "/board/tables": c.status, "/metrics": http.StatusNotFound} {
			if got := status(t, s.WebURL(c.name)+path); got != want {
				t.Errorf("%s: %s: %d, want %d", c.about, path, got, want)
			}
		}
	}
}

// status asks as an operator and returns what comes of it.
func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a-token-of-enough-letters")
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	res, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func pidFile(t *testing.T, s *stack.Stack, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir(), name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// eventually polls until done is true.
// Roles are killed, restarted on their ports, added and drained one by one.
func TestRolesComeAndGo(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 2})
	first := stack.Worker(1)
	before, url := s.Pid(first), s.AdminURL(first)
	if before == 0 || before != pidFile(t, s, first) || !alive(t, s, first) {
		t.Fatalf("%s: pid %d, pid file %d", first, before, pidFile(t, s, first))
	}

	if err := s.Kill(first, stack.Die); err != nil {
		t.Fatal(err)
	}
	state, err := s.Wait(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("%s ended with %v, want SIGKILL", first, state)
	}
	if s.Pid(first) != 0 || alive(t, s, first) {
		t.Error("a killed role is still there")
	}
	if err := s.Restart(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if after := s.Pid(first); after == 0 || after == before || after != pidFile(t, s, first) || s.AdminURL(first) != url {
		t.Errorf("restarted: pid %d (was %d, file says %d), %s (was %s)", after, before, pidFile(t, s, first), s.AdminURL(first), url)
	}

	added, err := s.AddWorker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if added != stack.Worker(3) || !alive(t, s, added) {
		t.Errorf("added %s", added)
	}
	if err := s.Kill(added, stack.Term); err != nil {
		t.Fatal(err)
	}
	state, err = s.Wait(t.Context(), added)
	if err != nil {
		t.Fatal(err)
	}
	if state.ExitCode() != 0 {
		t.Errorf("%s drained with exit code %d, want 0\n%s", added, state.ExitCode(), s.Logs(added))
	}
}

// A supervised stack starts again what dies, Azurite too, and keeps the pid
// files true.
func TestSupervisorRestartsWhatDies(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1, Supervise: true})
	for _, name := range []string{stack.Web, stack.Worker(1)} {
		before := s.Pid(name)
		if err := s.Kill(name, stack.Die); err != nil {
			t.Fatal(err)
		}
		stacktest.Eventually(t, name+" is back", func() bool {
			now := s.Pid(name)
			return now != 0 && now != before && alive(t, s, name) && pidFile(t, s, name) == now
		})
	}
	before := s.Pid(stack.Azurite)
	if err := syscall.Kill(before, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stacktest.Eventually(t, "Azurite is back", func() bool {
		now := s.Pid(stack.Azurite)
		return now != before && pidFile(t, s, stack.Azurite) == now
	})
}

// A role that its supervisor is just starting is started anew with the
// environment that Restart adds. (The race detector found that both read and
// wrote the environment.)
func TestRestartMeetsItsSupervisor(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1, Supervise: true})
	name := stack.Worker(1)
	for n := range 3 {
		before := s.Pid(name)
		if err := s.Kill(name, stack.Die); err != nil {
			t.Fatal(err)
		}
		stacktest.Eventually(t, "the supervisor starts "+name, func() bool { pid := s.Pid(name); return pid != 0 && pid != before })
		again := "again-" + strconv.Itoa(n)
		if err := s.Restart(t.Context(), name, "WORKERROLE_NAME="+again); err != nil {
			t.Fatal(err)
		}
		stacktest.Eventually(t, "a log of "+again, func() bool { return strings.Contains(s.Logs(name), "worker="+again) })
	}
}

// Nothing is built or started while another process holds a port, and the error
// says which, and what to do.
func TestStrangersPortIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	port := stranger.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()
	_, err = stack.Start(t.Context(), stack.Options{
		Dir: dir, Workers: 1, QueuePort: port,
		WebAddr: stranger.Addr().String(), WorkerAdminAddr: stranger.Addr().String(),
	})
	if !errors.Is(err, azurite.ErrStranger) {
		t.Fatalf("Start: %v, want ErrStranger", err)
	}
	for _, want := range []string{strconv.Itoa(port), "AZURITE_QUEUE_PORT=", "WEBROLE_ADDR=127.0.0.1:", "WORKERROLE_ADMIN_ADDR="} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(dir, "*.pid")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// One folder, one stack; the folder is free again after Stop.
func TestOneStackPerFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stacktest.Start(t, stack.Options{Dir: dir})
	if pid := stack.Running(dir); pid != os.Getpid() {
		t.Errorf("Running = %d, want %d", pid, os.Getpid())
	}
	if _, err := stack.Start(t.Context(), stack.Options{Dir: dir}); !errors.Is(err, stack.ErrRunning) {
		t.Errorf("second Start: %v, want ErrRunning", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if pid := stack.Running(dir); pid != 0 {
		t.Errorf("Running after Stop = %d, want 0", pid)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(left) > 0 {
		t.Errorf("pid files after Stop: %v", left)
	}
}

// What was stored is there after Stop and Start, and two stacks at the same time
// do not disturb each other.
func TestStopKeepsTheData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := stacktest.Start(t, stack.Options{Dir: dir})
	two := stacktest.Start(t, stack.Options{})
	if one.BaseURL() == two.BaseURL() || one.ConnectionString() == two.ConnectionString() {
		t.Fatalf("two stacks share a port: %s, %s", one.BaseURL(), two.BaseURL())
	}
	id := announce(t, one.BaseURL())
	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	again := stacktest.Start(t, stack.Options{Dir: dir})
	if !known(t, again.BaseURL(), id) {
		t.Error("a video announced before Stop is gone after Start")
	}
	if known(t, two.BaseURL(), id) {
		t.Error("the other stack knows the video")
	}
}

func announce(t *testing.T, base string) string {
	t.Helper()
	return newUser(t, base).announce("A title")
}

func known(t *testing.T, base, id string) bool {
	t.Helper()
	return newUser(t, base).knows(id)
}

// A role that cannot start is an error with the end of its log, and nothing is
// left running.
func TestRoleThatEndsIsAnErrorWithItsLog(t *testing.T) {
	t.Parallel()
	var said lockedBuffer
	s, err := stack.Start(t.Context(), stack.Options{
		Dir: t.TempDir(), Bin: stacktest.Bin(t), Log: &said,
		Env: []string{"CUTROOM_PREFIX=NOT a prefix"},
	})
	if err == nil {
		_ = s.Stop()
		t.Fatal("Start with a bad CUTROOM_PREFIX succeeds")
	}
	if !strings.Contains(err.Error(), "CUTROOM_PREFIX") {
		t.Errorf("the error does not quote the role: %v", err)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestFromEnvListsEveryBadVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{"AZURITE_BLOB_PORT": "many", "WEBROLE_ADDR": "8080", "AZURITE_TABLE_PORT": "70000", "WORKERS": "4..1"}
	_, err := stack.FromEnv(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("bad variables are accepted")
	}
	for name := range env {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	o, err := stack.FromEnv(func(string) string { return "" })
	if err != nil || o.BlobPort != 10000 || o.WebAddr != "127.0.0.1:8080" || o.Workers != 2 {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	for text, want := range map[string][2]int{"3": {3, 3}, "1..4": {1, 4}, "0": {}, "9": {}, "1..": {}, "1-4": {}, "1..99": {}} {
		o, err := stack.FromEnv(func(name string) string { return map[string]string{"WORKERS": text}[name] })
		if got := [2]int{o.Workers, o.MaxWorkers}; got != want || (err == nil) != (want != [2]int{}) {
			t.Errorf("WORKERS=%s: %v, %v", text, got, err)
		}
	}
}

// Without a lab nothing adds workers as the queues want, so such a stack does not start.
// What was to run beside it ends.
func TestFollowingTheQueuesNeedsALab(t *testing.T) {
	t.Parallel()
	var called []string
	_, err := stack.Start(t.Context(), stack.Options{
		Workers: 1, MaxWorkers: 4,
		Stopping: func() { called = append(called, "stopping") },
		Stopped:  func() { called = append(called, "stopped") },
	})
	if err == nil || !strings.Contains(err.Error(), "lab") || !slices.Equal(called, []string{"stopping", "stopped"}) {
		t.Errorf("error %v, called %q", err, called)
	}
}

// Stop leaves no goroutine. Not parallel: the goroutines of others would count.
func TestStopLeavesNoGoroutine(t *testing.T) {
	present := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(2*time.Minute))
	defer cancel()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	s, err := stack.Start(ctx, stack.Options{Bin: stacktest.Bin(t), Workers: 1, Supervise: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// The thread that starts processes is meant to last.
	goleak.VerifyNone(t, present, goleak.IgnoreAnyFunction("github.com/cutroom/cutroom/e2e/stack.init.func1.1"))
}
