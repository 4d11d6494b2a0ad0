package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
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

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

var something byte

// hostile is what a program tries that was taken over by the bytes that it reads. It
// prints what it got.
var hostile = map[string]func(arg string) error{
	"own environment": func(string) error {
		if slices.Equal(os.Environ(), Environment) {
			return fmt.Errorf("nothing of the worker")
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
		return unix.Tgkill(n, n, 0)
	},
	"connect": func(to string) error {
		network, address, _ := strings.Cut(to, " ")
		c, err := net.DialTimeout(network, address, 5*time.Second)
		if err == nil {
			_, err = c.Write(stolen)
		}
		return err
	},
	"multipath tcp": func(string) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 262)
		return err
	},
	"listen":              func(string) error { _, err := net.Listen("tcp4", "127.0.0.1:0"); return err },
	"listen without bind": func(string) error { _, err := listening(); return err },
	"accept":              func(string) error { return accept(unix.SYS_ACCEPT) },
	"accept4":             func(string) error { return accept(unix.SYS_ACCEPT4) },
	"sendto": fastOpen(func(fd int, to unix.Sockaddr) error {
		return unix.Sendto(fd, stolen, unix.MSG_FASTOPEN, to)
	}),
	"sendmsg": fastOpen(func(fd int, to unix.Sockaddr) error {
		return unix.Sendmsg(fd, stolen, nil, to, unix.MSG_FASTOPEN)
	}),
	"sendmmsg": fastOpen(sendmmsg),
	"datagram": func(path string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], stolen, 0, &unix.SockaddrUnix{Name: path})
	},
	// What follows changes nothing, as it sets what is set.
	"parent's limits": onProcess(func(pid int) error {
		var l unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &l); err != nil {
			return err
		}
		return unix.Prlimit(pid, unix.RLIMIT_CORE, &l, nil)
	}),
	"parent's processors": onProcess(func(pid int) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &set)
	}),
	"parent's scheduler": onProcess(func(pid int) error {
		a, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			return err
		}
		return unix.SchedSetAttr(pid, a, 0)
	}),
	"parent's policy": onProcess(func(pid int) error { return sched(unix.SYS_SCHED_SETSCHEDULER, pid, unix.SCHED_NORMAL) }),
	"parent's rank":   onProcess(func(pid int) error { return sched(unix.SYS_SCHED_SETPARAM, pid) }),
	"parent's priority": onProcess(func(pid int) error {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid) // 20 less what is set
		if err != nil {
			return err
		}
		return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-raw)
	}),
	"parent's disk priority": onProcess(func(pid int) error {
		const process = 1 // IOPRIO_WHO_PROCESS
		is, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, process, uintptr(pid), 0)
		if errno == 0 {
			_, _, errno = unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(pid), is)
		}
		if errno != 0 {
			return errno
		}
		return nil
	}),
	// Its calls would pass no filter. Without room for its answer it makes nothing.
	"io_uring": func(string) error {
		if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); errno != unix.EFAULT {
			return errno
		}
		return nil
	},
	// An unknown kind of set of processes stands for that of a user: it changes nothing either.
	"many priorities": func(string) error { return unix.Setpriority(99, 0, 19) },
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
	// No such address, file or process: what is not refused changes nothing.
	"calls": func(numbers string) error {
		var made []string
		for number := range strings.SplitSeq(numbers, ",") {
			n, err := strconv.Atoi(number)
			if err != nil {
				return err
			}
			if _, _, errno := unix.RawSyscall6(uintptr(n), 1, 1, 1, 1, 1, 1); errno != unix.EPERM {
				made = append(made, fmt.Sprintf("%d: %v", n, errno))
			}
		}
		if len(made) == 0 {
			return unix.EPERM
		}
		return fmt.Errorf("made: %s", strings.Join(made, ", "))
	},
	"type into a terminal": func(string) error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&something)))
		if errno == unix.ENOTTY {
			return nil // the call was made
		}
		return errno
	},
	"outlive the worker": func(string) error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) },
	"rights": func(string) error {
		for right := range unix.CAP_LAST_CAP + 1 {
			if right == unix.CAP_DAC_OVERRIDE || right == unix.CAP_DAC_READ_SEARCH {
				continue // Landlock bounds what they open
			}
			if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(right), 0, 0, 0); err == nil && has == 1 {
				return nil
			}
		}
		return fmt.Errorf("none")
	},
	"new privileges": func(string) error {
		no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && no == 1 {
			err = fmt.Errorf("never")
		}
		return err
	},
}

// stolen is what a hostile program sends.
var stolen = []byte("stolen")

func tcpSocket() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }

// listening makes a socket that listens on a port that the system chooses.
func listening() (fd int, err error) {
	if fd, err = tcpSocket(); err != nil {
		return fd, err
	}
	return fd, unix.Listen(fd, 1)
}

// accept takes a connection of its own. Where it may not even listen it tries all the
// same: a socket may have come from elsewhere.
func accept(call uintptr) error {
	fd, err := listening()
	if err == nil {
		var at unix.Sockaddr
		if at, err = unix.Getsockname(fd); err != nil {
			return err
		}
		own, err := tcpSocket()
		if err != nil {
			return err
		}
		if err := unix.Connect(own, at); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall6(call, uintptr(fd), 0, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// fastOpen sends by TCP Fast Open, which connects without connect.
func fastOpen(send func(fd int, to unix.Sockaddr) error) func(string) error {
	return func(to string) error {
		_, address, _ := strings.Cut(to, " ")
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		fd, err := tcpSocket()
		if err != nil {
			return err
		}
		return send(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
}

func sendmmsg(fd int, to unix.Sockaddr) error {
	in := to.(*unix.SockaddrInet4)
	raw := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: in.Addr}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&raw.Port))[:], uint16(in.Port))
	data := unix.Iovec{Base: &stolen[0], Len: uint64(len(stolen))}
	message := struct {
		unix.Msghdr
		sent uint32
	}{Msghdr: unix.Msghdr{Name: (*byte)(unsafe.Pointer(&raw)), Namelen: unix.SizeofSockaddrInet4, Iov: &data, Iovlen: 1}}
	if _, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 1, unix.MSG_FASTOPEN, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func onProcess(do func(pid int) error) func(string) error {
	return func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return do(n)
	}
}

// sched makes a call whose last argument is a rank among processes that have none: 0.
func sched(call uintptr, args ...int) error {
	var rank int32
	raw := [3]uintptr{}
	for i, a := range args {
		raw[i] = uintptr(a)
	}
	raw[len(args)] = uintptr(unsafe.Pointer(&rank))
	if _, _, errno := unix.Syscall(call, raw[0], raw[1], raw[2]); errno != 0 {
		return errno
	}
	return nil
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
func try(t *testing.T, held *Sandbox, r Rules, what, arg string) (said string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "hostile", what, arg)
	cmd.Path, _ = os.Executable()
	cmd.Env = []string{}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if held == nil {
		cmd.Env = []string{"SECRET=1"}
	} else {
		held.Hold(cmd, r)
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", what, err)
	}
	if cmd.ProcessState.ExitCode() == FailedStatus {
		t.Fatalf("%s: the sandbox: %s", what, out.String())
	}
	return strings.TrimSpace(out.String()) + " (" + cmd.ProcessState.String() + ")", err == nil
}

// opened is the sandbox of this kernel, whatever it can hold. What it cannot is named, and
// "required" refuses it.
func opened(t *testing.T) *Sandbox {
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

// What holds an attempt back: the beginning of what Missing says when it is missing.
const (
	byFiles   = "files:"
	byTCP     = "TCP connections:"
	bySignals = "signals:"
	byCalls   = "processes and other sockets:"
	byLimits  = "" // every kernel has them
)

// lacks reports whether this kernel does not hold attempts back so.
func (c *Sandbox) lacks(by string) bool {
	return by != byLimits && slices.ContainsFunc(c.missing, func(m string) bool { return strings.HasPrefix(m, by) })
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatalf("listen on %s: %v", network, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// received is what each connection to l has sent that is not this function's own. That
// one is made last and so accepted last: nothing has to be waited for.
func received(t *testing.T, l net.Listener) (all []string) {
	t.Helper()
	last, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Close() }()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(azuritetest.Patience(30 * time.Second))); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if c.RemoteAddr().String() == last.LocalAddr().String() {
			return all
		}
		text, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		all = append(all, string(text))
	}
}

// A program that has been taken over gets nowhere. Each attempt is also made without the
// sandbox, where it succeeds: else it would prove nothing.
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
	reader := listen(t, "tcp4", "127.0.0.1:0")
	// A listener for each attempt at one, so that each can be asked what it received.
	reachable := map[string]net.Listener{"its own work: source": reader,
		"same port, other address": listen(t, "tcp4", fmt.Sprintf("127.0.0.2:%d", port(reader)))}
	to := func(name string) string {
		if reachable[name] == nil {
			reachable[name] = listen(t, "tcp4", "127.0.0.1:0")
		}
		return "tcp4 " + reachable[name].Addr().String()
	}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() }) // not deferred: the parallel tests end later
	unixSocket, datagrams := filepath.Join(base, "s"), filepath.Join(base, "d")
	listen(t, "unix", unixSocket)
	local, err := net.ListenPacket("unixgram", datagrams)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	me := strconv.Itoa(os.Getpid())
	const denied, notPermitted = "permission denied", "operation not permitted"
	for name, c := range map[string]struct{ what, arg, want, by string }{
		"its own work: input":  {"read", filepath.Join(mine, "input"), "", byLimits},
		"its own work: output": {"write", filepath.Join(mine, "output"), "", byLimits},
		"its own work: source": {"connect", to("its own work: source"), "", byLimits},
		// Landlock's rule is a port and not an address. That this is so is written in
		// docs/security.md: when it changes, that has to change, too.
		"same port, other address": {"connect", to("same port, other address"), "", byLimits},
		"environment":              {"own environment", "", "nothing of the worker", byLimits},
		"parent's environment":     {"parent's environment", me, denied, byFiles},
		"parent's command line":    {"parent's command", me, denied, byFiles},
		"parent's memory":          {"parent's memory", me, notPermitted, byCalls},
		"parent's limits":          {"parent's limits", me, notPermitted, byCalls},
		"parent's processors":      {"parent's processors", me, notPermitted, byCalls},
		"parent's scheduler":       {"parent's scheduler", me, notPermitted, byCalls},
		"parent's policy":          {"parent's policy", me, notPermitted, byCalls},
		"parent's rank":            {"parent's rank", me, notPermitted, byCalls},
		"parent's priority":        {"parent's priority", me, notPermitted, byCalls},
		"parent's disk priority":   {"parent's disk priority", me, notPermitted, byCalls},
		"io_uring":                 {"io_uring", "", notPermitted, byCalls},
		"many priorities":          {"many priorities", "", notPermitted, byCalls},
		"signal to parent":         {"signal", me, notPermitted, bySignals},
		"planted file":             {"read", filepath.Join(base, "other", "input"), denied, byFiles},
		"passwords":                {"read", "/etc/passwd", denied, byFiles},
		"another's scratch":        {"list", other, denied, byFiles},
		"write there":              {"write", filepath.Join(other, "output"), denied, byFiles},
		"write beside":             {"write", filepath.Join(base, "output"), denied, byFiles},
		"symbolic link":            {"link", filepath.Join(mine, "link"), notPermitted, byCalls},
		"directory":                {"directory", filepath.Join(mine, "directory"), notPermitted, byCalls},
		"other port":               {"connect", to("other port"), denied, byTCP},
		"fast open: sendto":        {"sendto", to("fast open: sendto"), notPermitted, byCalls},
		"fast open: sendmsg":       {"sendmsg", to("fast open: sendmsg"), notPermitted, byCalls},
		"fast open: sendmmsg":      {"sendmmsg", to("fast open: sendmmsg"), notPermitted, byCalls},
		"udp":                      {"connect", "udp4 " + udp.LocalAddr().String(), notPermitted, byCalls},
		"unix socket":              {"connect", "unix " + unixSocket, notPermitted, byCalls},
		"unix datagram":            {"datagram", datagrams, notPermitted, byCalls},
		"multipath tcp":            {"multipath tcp", "", notPermitted, byCalls},
		"listen":                   {"listen", "", notPermitted, byCalls},
		"listen without bind":      {"listen without bind", "", notPermitted, byCalls},
		"accept":                   {"accept", "", notPermitted, byCalls},
		"accept4":                  {"accept4", "", notPermitted, byCalls},
		"fork":                     {"fork", "", notPermitted, byCalls},
		"another program":          {"another program", "", notPermitted, byCalls},
		"user namespace":           {"user namespace", "", notPermitted, byCalls},
		"memory":                   {"memory", "", "cannot allocate memory", byLimits},
		"disk":                     {"disk", mine, "file too large", byLimits},
		"files":                    {"files", "", "too many open files", byLimits},
		"terminal":                 {"type into a terminal", "", notPermitted, byCalls},
		"new privileges":           {"new privileges", "", "never", byLimits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, ok := try(t, held, rulesFor(mine, port(reader)), c.what, c.arg)
			lacks := held.lacks(c.by)
			if lacks {
				t.Logf("NOT SHOWN: nothing holds it back on this kernel, as %q says: %s", held, said)
			} else if ok != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("in the sandbox: %s, want %q", said, c.want)
			}
			t.Logf("| %s | %s |", name, said)
			at := reachable[name]
			if at != nil && !lacks {
				if got := received(t, at); (len(got) > 0) != (c.want == "") {
					t.Errorf("from the sandbox its listener received %q", got)
				}
			}
			switch c.what {
			case "multipath tcp", "user namespace", "parent's memory", "parent's environment", "new privileges", "many priorities", "io_uring":
				return // a system may refuse them in any case
			}
			said, ok = try(t, nil, Rules{}, c.what, c.arg)
			if strings.HasPrefix(name, "fast open") && strings.Contains(said, "operation not supported") {
				t.Log("NOT SHOWN: this system has no TCP Fast Open (net.ipv4.tcp_fastopen)")
				return
			}
			if !ok {
				t.Errorf("without a sandbox: %s, so the attempt proves nothing", said)
			}
			if at != nil && !slices.Contains(received(t, at), string(stolen)) {
				t.Error("without a sandbox its listener received nothing, so the attempt proves nothing")
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
		t.Logf("NOT SHOWN: this system refuses user namespaces: %v", err)
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
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "while :; do :; done")
	held.Hold(cmd, rulesFor(t.TempDir(), 0))
	_ = cmd.Run()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGXCPU {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// Without a port there is no socket at all.
func TestNoPortNoSocket(t *testing.T) {
	t.Parallel()
	held := opened(t)
	to := "tcp4 " + listen(t, "tcp4", "127.0.0.1:0").Addr().String()
	if said, ok := try(t, held, rulesFor(t.TempDir(), 0), "connect", to); !(held.lacks(byCalls) && held.lacks(byTCP)) && (ok || !strings.Contains(said, "operation not permitted")) {
		t.Errorf("it said %s", said)
	}
}

// Every call of today's kernels that is not in the table of what is allowed is refused, and
// so are numbers that no kernel has yet. The names below must be among the refused: they
// are what was found to reach out of the sandbox, and a table may not let them in by mistake.
func TestHostileCalls(t *testing.T) {
	t.Parallel()
	held := opened(t)
	if held.lacks(byCalls) {
		t.Logf("NOT SHOWN: no filter of system calls, as %q says", held)
		return
	}
	here, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	refused := maps.Clone(here.SyscallNames)
	delete(refused, "clone3") // ENOSYS, so that the C library uses clone
	for _, name := range []string{"uprobe", "uretprobe"} {
		delete(refused, name) // the kernel lets them pass each filter, and ends a program that calls them
	}
	for _, name := range slices.Concat(slices.Concat(allowed...), connecting) {
		delete(refused, name)
	}
	for _, call := range slices.Concat(allowedWith, allowedToConnect) {
		delete(refused, call.Name)
	}
	for name := range strings.FieldsSeq(`
		chmod fchmod fchmodat fchmodat2 chown fchown fchownat utimensat setxattr fsetxattr setxattrat removexattr removexattrat mknodat mkdirat symlinkat linkat
		inotify_init1 inotify_add_watch fanotify_init name_to_handle_at open_by_handle_at shmget shmat semget msgget msgsnd mq_open memfd_create memfd_secret
		setpgid setsid kill tkill pidfd_open pidfd_getfd kcmp ptrace process_vm_readv clock_settime clock_adjtime settimeofday adjtimex sethostname reboot acct syslog
		swapon swapoff quotactl fsopen open_tree move_mount mount_setattr mount umount2 pivot_root chroot bpf unshare setns keyctl add_key userfaultfd
		perf_event_open io_uring_setup init_module kexec_load bind listen accept accept4 socketpair ioprio_set fork vfork sched_setattr`) {
		if _, known := here.SyscallNames[name]; !known {
			continue // another processor's
		}
		if _, is := refused[name]; !is {
			t.Errorf("%s is allowed", name)
		}
	}
	var numbers []string
	for _, number := range refused {
		numbers = append(numbers, strconv.Itoa(number))
	}
	for number := slices.Max(slices.Collect(maps.Values(here.SyscallNames))) + 1; number < 600; number++ {
		numbers = append(numbers, strconv.Itoa(number))
	}
	t.Logf("%d calls are refused", len(numbers))
	if said, ok := try(t, held, rulesFor(t.TempDir(), 1), "calls", strings.Join(numbers, ",")); ok || !strings.Contains(said, "operation not permitted") {
		t.Errorf("in the sandbox: %s", said)
	}
	for what, want := range map[string]string{"outlive the worker": "operation not permitted", "rights": "none"} {
		if what == "rights" && os.Getuid() != 0 {
			continue // it has none to give up
		}
		if said, ok := try(t, held, Rules{}, what, ""); ok || !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", what, said, want)
		}
	}
}

// A worker of root may have its scratch below a directory that is another user's alone.
func TestScratchBelowAnothersDirectory(t *testing.T) {
	t.Parallel()
	held := opened(t)
	if os.Getuid() != 0 {
		t.Log("NOT SHOWN: only root can make such a directory")
		return
	}
	others := filepath.Join(t.TempDir(), "others")
	dir := filepath.Join(others, "scratch")
	if err := errors.Join(os.Mkdir(others, 0o700), os.Mkdir(dir, 0o700), os.Chown(others, 65532, 65532)); err != nil {
		t.Fatal(err)
	}
	if said, ok := try(t, held, rulesFor(dir, 0), "write", filepath.Join(dir, "output")); !ok {
		t.Errorf("in the sandbox: %s", said)
	}
}

// A program that cannot be started, or a directory that is not there, is the sandbox's
// failure and not the program's.
func TestSandboxSaysWhyItFailed(t *testing.T) {
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
		held.Hold(cmd, c.r)
		said, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != FailedStatus || !bytes.Contains(said, []byte("no such file")) {
			t.Errorf("%s: status %d: %s", name, status, said)
		}
	}
}

// withoutLandlock takes Landlock away from this process, as a container's filter of
// system calls may, and opens each mode.
func withoutLandlock() string {
	// All threads, because Go moves between them.
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls:      []seccomp.SyscallGroup{{Names: []string{"landlock_create_ruleset"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}},
	}})
	if err != nil {
		return err.Error()
	}
	_, required := Open(Required)
	held, err := Open(Try)
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command("/bin/true")
	held.Hold(cmd, Rules{})
	err = cmd.Run()
	return fmt.Sprintf("required: %v; try: %v; runs: %v", required, held, err)
}

// Where the kernel cannot, "required" refuses, and "try" says what is missing and runs.
func TestModesWithoutLandlock(t *testing.T) {
	t.Parallel()
	opened(t)
	said, _ := try(t, nil, Rules{}, "no Landlock", "")
	for _, want := range []string{"required: this system cannot hold files: the kernel's Landlock is version 0, not 1", "try: held by seccomp; nothing holds files", "runs: <nil>"} {
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
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ulimit -n; : > "+filepath.Join(t.TempDir(), "anywhere"))
	off.Hold(cmd, Rules{})
	if said, err := cmd.Output(); string(said) != "256\n" || err != nil {
		t.Errorf("off: %s open files are allowed, %v; want limits only", said, err)
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
		if os.Getuid() == 0 { // root may read everything, so both are user nobody
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
