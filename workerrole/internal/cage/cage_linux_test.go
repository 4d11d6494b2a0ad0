package cage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var something byte

// hostile is what a program tries that was taken over by the bytes that it reads. It
// prints what it got.
var hostile = map[string]func(arg string) error{
	"own environment": func(string) error {
		if len(os.Environ()) == 0 {
			return fmt.Errorf("it is empty")
		}
		return nil
	},
	"read":      func(path string) error { _, err := os.ReadFile(path); return err },
	"list":      func(path string) error { _, err := os.ReadDir(path); return err },
	"write":     func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	"link":      func(path string) error { return os.Symlink("/etc", path) },
	"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	"parent's environment": func(pid string) error {
		_, err := os.ReadFile("/proc/" + pid + "/environ")
		return err
	},
	"parent's command": func(pid string) error { _, err := os.ReadFile("/proc/" + pid + "/cmdline"); return err },
	"parent's memory": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		var b [1]byte
		local := []unix.Iovec{{Base: &b[0], Len: 1}}
		_, err = unix.ProcessVMReadv(n, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&something)), Len: 1}}, 0)
		return err
	},
	"signal": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return syscall.Kill(n, 0)
	},
	"connect": func(to string) error {
		network, address, _ := strings.Cut(to, " ")
		c, err := net.DialTimeout(network, address, 5*time.Second)
		if err == nil {
			_, err = c.Write([]byte("stolen"))
		}
		return err
	},
	"multipath tcp": func(string) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 262)
		return err
	},
	"listen": func(string) error { _, err := net.Listen("tcp4", "127.0.0.1:0"); return err },
	"fork": func(string) error {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
		}
		return nil
	},
	"another program": func(string) error { return exec.Command("/bin/true").Run() },
	"user namespace":  func(string) error { return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUSER) },
	"memory": func(string) error {
		_, err := unix.Mmap(-1, 0, 3<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		return err
	},
	"disk": func(dir string) error { return os.WriteFile(filepath.Join(dir, "big"), make([]byte, 4<<20), 0o600) },
	"files": func(string) error {
		for range 2 * maxFiles {
			if _, err := os.Open("/dev/null"); err != nil {
				return err
			}
		}
		return nil
	},
	"new privileges": func(string) error {
		no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && no == 1 {
			err = fmt.Errorf("never")
		}
		return err
	},
}

// The test binary is also the program that is held.
func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != "hostile" {
		os.Exit(m.Run())
	}
	switch what, arg := os.Args[2], os.Args[3]; what {
	case "hide and wait", "wait":
		var err error
		if what != "wait" {
			err = Hide()
		}
		fmt.Println(err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	case "no Landlock":
		fmt.Println(withoutLandlock())
	default:
		if err := hostile[what](arg); err != nil {
			fmt.Printf("stopped: %v\n", err)
			os.Exit(1)
		}
		fmt.Println("done")
	}
}

// rulesFor are those of a run: its own directory and one port.
func rulesFor(dir string, port int) Rules {
	return Rules{Read: []string{filepath.Join(dir, "input")}, Write: []string{dir}, Connect: port, CPU: time.Second, Memory: 2 << 30, File: 1 << 20}
}

// try runs one attempt of the hostile program, held or not.
func try(t *testing.T, held *Cage, r Rules, what, arg string) (said string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "hostile", what, arg)
	cmd.Path, _ = os.Executable()
	cmd.Env = []string{}
	if held == nil {
		cmd.Env = []string{"SECRET=1"}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	failed, _, err := held.Hold(cmd, r)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Run()
	if err := failed(); err != nil {
		t.Fatalf("%s: the cage: %v", what, err)
	}
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", what, err)
	}
	return strings.TrimSpace(out.String()) + " (" + cmd.ProcessState.String() + ")", err == nil
}

// opened is the cage of this kernel, whatever it can hold. What it cannot is named, and
// "required" refuses it.
func opened(t *testing.T) *Cage {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: runs programs")
	}
	held, err := Open(Try)
	if err != nil {
		t.Fatal(err)
	}
	_, refused := Open(Required)
	if (refused != nil) != (len(held.Missing()) > 0) {
		t.Fatalf("missing %q, but required says: %v", held.Missing(), refused)
	}
	return held
}

// Who holds an attempt back: the beginning of what Missing says when nobody does.
const (
	byFiles   = "files:"
	byTCP     = "TCP connections:"
	bySignals = "signals:"
	byCalls   = "processes and other sockets:"
	byLimits  = "" // every kernel has them
)

// lacks reports whether this kernel holds nobody back so.
func (c *Cage) lacks(by string) bool {
	return by != byLimits && slices.ContainsFunc(c.missing, func(m string) bool { return strings.HasPrefix(m, by) })
}

func listen(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatalf("listen on %s: %v", network, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr()
}

func port(a net.Addr) int { return a.(*net.TCPAddr).Port }

// A program that has been taken over gets nowhere. Each attempt is also made without the
// cage, where it succeeds: else it would prove nothing.
func TestHostileProgram(t *testing.T) {
	t.Parallel()
	held := opened(t)
	base := t.TempDir()
	mine, other := filepath.Join(base, "mine"), filepath.Join(base, "other")
	for _, dir := range []string{mine, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "input"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader, elsewhere := listen(t, "tcp4", "127.0.0.1:0"), listen(t, "tcp4", "127.0.0.1:0")
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	unixSocket := listen(t, "unix", filepath.Join(base, "s"))
	me := strconv.Itoa(os.Getpid())
	const denied, notPermitted = "permission denied", "operation not permitted"
	for name, c := range map[string]struct{ what, arg, want, by string }{
		"its own work: input":   {"read", filepath.Join(mine, "input"), "", byLimits},
		"its own work: output":  {"write", filepath.Join(mine, "output"), "", byLimits},
		"its own work: source":  {"connect", "tcp4 " + reader.String(), "", byLimits},
		"environment":           {"own environment", "", "it is empty", byLimits},
		"parent's environment":  {"parent's environment", me, denied, byFiles},
		"parent's command line": {"parent's command", me, denied, byFiles},
		"parent's memory":       {"parent's memory", me, notPermitted, byCalls},
		"signal to parent":      {"signal", me, notPermitted, bySignals},
		"planted file":          {"read", filepath.Join(base, "other", "input"), denied, byFiles},
		"passwords":             {"read", "/etc/passwd", denied, byFiles},
		"another's scratch":     {"list", other, denied, byFiles},
		"write there":           {"write", filepath.Join(other, "output"), denied, byFiles},
		"write beside":          {"write", filepath.Join(base, "output"), denied, byFiles},
		"symbolic link":         {"link", filepath.Join(mine, "link"), denied, byFiles},
		"directory":             {"directory", filepath.Join(mine, "directory"), denied, byFiles},
		"other port":            {"connect", "tcp4 " + elsewhere.String(), denied, byTCP},
		"udp":                   {"connect", "udp4 " + udp.LocalAddr().String(), denied, byCalls},
		"unix socket":           {"connect", "unix " + unixSocket.String(), denied, byCalls},
		"multipath tcp":         {"multipath tcp", "", denied, byCalls},
		"listen":                {"listen", "", denied, byTCP},
		"fork":                  {"fork", "", notPermitted, byCalls},
		"another program":       {"another program", "", notPermitted, byCalls},
		"user namespace":        {"user namespace", "", notPermitted, byCalls},
		"memory":                {"memory", "", "cannot allocate memory", byLimits},
		"disk":                  {"disk", mine, "file too large", byLimits},
		"files":                 {"files", "", "too many open files", byLimits},
		"new privileges":        {"new privileges", "", "never", byLimits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, ok := try(t, held, rulesFor(mine, port(reader)), c.what, c.arg)
			if held.lacks(c.by) {
				t.Logf("nothing holds it back on this kernel, as %q says: %s", held, said)
			} else if ok != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("in the cage: %s, want %q", said, c.want)
			}
			t.Logf("| %s | %s |", name, said)
			switch c.what {
			case "multipath tcp", "user namespace", "parent's memory", "parent's environment", "new privileges":
				return // a system may refuse them in any case
			}
			if said, ok := try(t, nil, Rules{}, c.what, c.arg); !ok {
				t.Errorf("without a cage: %s, so the attempt proves nothing", said)
			}
		})
	}
}

// The same, by an ordinary user in a user namespace of their own, as in a container
// without root. Where the system forbids such namespaces nothing is shown.
func TestHostileProgramWithoutRoot(t *testing.T) {
	t.Parallel()
	opened(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestHostileProgram$", "-test.v")
	cmd.Dir = t.TempDir()
	one := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 1000, HostID: id, Size: 1}}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid()),
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Logf("this system refuses user namespaces: %v", err)
		return
	}
	if err != nil || bytes.Count(out, []byte("    --- PASS: TestHostileProgram/")) < 20 {
		t.Errorf("%v\n%s", err, out)
	}
}

// Time that a program spends is limited by the kernel, too.
func TestHostileProgramThatSpins(t *testing.T) {
	t.Parallel()
	held := opened(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "while :; do :; done")
	failed, _, err := held.Hold(cmd, rulesFor(t.TempDir(), 0))
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGXCPU || failed() != nil {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// Without a port there is no socket at all.
func TestNoPortNoSocket(t *testing.T) {
	t.Parallel()
	held := opened(t)
	to := "tcp4 " + listen(t, "tcp4", "127.0.0.1:0").String()
	if said, ok := try(t, held, rulesFor(t.TempDir(), 0), "connect", to); !(held.lacks(byCalls) && held.lacks(byTCP)) && (ok || !strings.Contains(said, "permission denied")) {
		t.Errorf("it said %s", said)
	}
}

// A program that cannot be started, or a directory that is not there, is the cage's
// failure and not the program's.
func TestCageSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	held := opened(t)
	for name, c := range map[string]struct {
		path string
		r    Rules
	}{
		"no program":   {"/no/such/program", Rules{}},
		"no directory": {"/bin/true", Rules{Write: []string{"/no/such/directory"}}},
	} {
		cmd := exec.CommandContext(t.Context(), c.path)
		failed, isHeld, err := held.Hold(cmd, c.r)
		if err != nil || !isHeld {
			t.Fatal(isHeld, err)
		}
		if err := cmd.Run(); err == nil {
			t.Errorf("%s: it ran", name)
		}
		if err := failed(); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withoutLandlock takes Landlock away from this process, as a container's filter of
// system calls may, and opens each mode.
func withoutLandlock() string {
	var p program
	p.load(callNumber)
	p.when(unix.SYS_LANDLOCK_CREATE_RULESET, refuse(unix.ENOSYS))
	p.end(allow)
	list := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err.Error()
	}
	// All threads, because Go moves between them.
	const tsync = 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, tsync, uintptr(unsafe.Pointer(&list))); errno != 0 {
		return errno.Error()
	}
	_, required := Open(Required)
	held, err := Open(Try)
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command("/bin/true")
	failed, _, err := held.Hold(cmd, Rules{})
	if err == nil {
		err = cmd.Run()
	}
	return fmt.Sprintf("required: %v; try: %v; runs: %v %v", required, held, err, failed())
}

// Where the kernel cannot, "required" refuses, and "try" says what is missing and runs.
func TestModesWithoutLandlock(t *testing.T) {
	t.Parallel()
	opened(t)
	said, _ := try(t, nil, Rules{}, "no Landlock", "")
	for _, want := range []string{"required: this system cannot hold files: the kernel has no Landlock", "try: held by seccomp; nothing holds files", "runs: <nil> <nil>"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"required", "try", "off"} {
		if _, err := ParseMode(text); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", "yes", "Try"} {
		if mode, err := ParseMode(text); err == nil {
			t.Errorf("%q is %s", text, mode)
		}
	}
	off, err := Open(Off)
	if err != nil || len(off.Missing()) == 0 {
		t.Errorf("off: %v, %v", off, err)
	}
	if _, held, err := off.Hold(exec.Command("/bin/true"), Rules{}); held || err != nil {
		t.Errorf("off holds: %v, %v", held, err)
	}
}

// Another process of the same user cannot read the environment of one that hides.
func TestHide(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs programs")
	}
	start := func(what, arg string, env ...string) (*exec.Cmd, *bufio.Reader) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "hostile", what, arg)
		cmd.Env = append([]string{}, env...)
		if os.Getuid() == 0 { // root may read everything, so both are nobody
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stdin.Close() })
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("start as another user: %v", err)
		}
		return cmd, bufio.NewReader(stdout)
	}
	for what, want := range map[string]string{"hide and wait": "stopped", "wait": "done"} {
		hidden, said := start(what, "", "SECRET=1")
		if line, err := said.ReadString('\n'); line != "<nil>\n" {
			t.Fatalf("%s: %q, %v", what, line, err)
		}
		_, said = start("parent's environment", strconv.Itoa(hidden.Process.Pid))
		if line, err := said.ReadString('\n'); !strings.HasPrefix(line, want) {
			t.Errorf("%s: reading its environment: %q, %v, want %s", what, line, err, want)
		}
	}
}
