package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	// marker is the name by which a process knows that it is the copy.
	marker = "cutroom-sandbox"
	// maxFiles is how many files a program may have open.
	maxFiles = 256
	// threadStack is how much of its addresses each thread of a program takes.
	threadStack = 2 << 20
	// killedFirst makes the kernel take the program when memory runs out, of the container
	// or of the machine, and not the worker: its item is tried again, and the worker's
	// others go on. See proc_pid_oom_score_adj(5).
	killedFirst = "1000"
)

// plainFiles is what may be done in a directory to write: no links, no directories.
const plainFiles = abi.AccessFSReadFile | abi.AccessFSReadDir | abi.AccessFSWriteFile | abi.AccessFSTruncate |
	abi.AccessFSMakeReg | abi.AccessFSRemoveFile

// libraries are what programs need to start.
var libraries = []string{"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/opt", "/nix/store", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/dev/urandom", "/dev/random"}

func (c *Sandbox) look() {
	c.enabled = true
	version, _ := abi.LandlockGetABIVersion()
	if version >= 1 {
		c.holds = append(c.holds, fmt.Sprintf("Landlock %d", version))
	}
	since := []int{1, 4, 6}
	for i, what := range []string{"files", "TCP connections", "signals"} {
		if version < since[i] {
			c.missing = append(c.missing, fmt.Sprintf("%s: the kernel's Landlock is version %d, not %d", what, max(0, version), since[i]))
		}
	}
	if canFilter() {
		c.holds = append(c.holds, "seccomp")
	} else {
		c.missing = append(c.missing, "processes and other sockets: no filter of system calls is allowed")
	}
}

// Hold changes a command that has not been started: it will be held, or end with
// [FailedStatus]. It gets a process group of its own, and ends with the thread that starts it.
func (c *Sandbox) Hold(cmd *exec.Cmd, r Rules) {
	r.LimitsOnly = c == nil || !c.enabled
	spec, _ := json.Marshal(r) // of texts and numbers
	cmd.Args = append([]string{marker, string(spec), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/proc/self/exe"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Hide keeps other processes of the user from reading this one's environment and memory.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding the environment: %w", err)
	}
	return nil
}

// The copy never gets to main.
func init() {
	if len(os.Args) < 3 || os.Args[0] != marker {
		return
	}
	fmt.Fprintln(os.Stderr, become(os.Args[1], os.Args[2:]))
	os.Exit(FailedStatus)
}

// become gives up rights and turns this process into the program that args begin with.
func become(spec string, args []string) error {
	runtime.LockOSThread() // rights belong to a thread
	var r Rules
	if err := json.Unmarshal([]byte(spec), &r); err != nil {
		return fmt.Errorf("reading what is allowed: %w", err)
	}
	if err := limit(r); err != nil {
		return err
	}
	if !r.LimitsOnly {
		if err := giveUpRights(); err != nil {
			return err
		}
		if err := confine(r, args[0]); err != nil {
			return err
		}
		if err := filter(r.Connect > 0); err != nil {
			return err
		}
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return fmt.Errorf("naming the arguments: %w", err)
	}
	environment, _ := syscall.SlicePtrFromStrings(Environment) // no zeros in it
	// From here on this process may not get any memory, so nothing is called that takes some.
	if r.Memory > 0 {
		memory := unix.Rlimit{Cur: uint64(r.Memory), Max: uint64(r.Memory)}
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(&memory)), 0, 0, 0); errno != 0 {
			return fmt.Errorf("limiting memory: %w", errno)
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE,
		uintptr(unsafe.Pointer(argv[0])), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&environment[0])))
	return fmt.Errorf("starting %s: %w", args[0], errno)
}

// giveUpRights leaves the program and what it executes no more rights than it has, no
// capability of root but those that open files, which Landlock bounds (scratch may lie below
// a directory of another user), and no file of ours but the standard three. A worker without
// capabilities has none to give up, and an old kernel cannot close a range of files: both
// errors are ignored.
func giveUpRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	for right := range uintptr(unix.CAP_LAST_CAP + 1) {
		if right != unix.CAP_DAC_OVERRIDE && right != unix.CAP_DAC_READ_SEARCH {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0)
		}
	}
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	return nil
}

// limit sets what the program may take, except for its memory.
func limit(r Rules) error {
	const zero = 20 // the system call counts from 40 down to 1
	if was, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && r.Nice > 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(zero-was+r.Nice, 19)) // else it competes like all others
	}
	limits := map[int]unix.Rlimit{unix.RLIMIT_CORE: {}, unix.RLIMIT_NOFILE: {Cur: maxFiles, Max: maxFiles},
		unix.RLIMIT_STACK: {Cur: threadStack, Max: threadStack}}
	if r.CPU > 0 { // a signal of its own first, then the one that nothing survives
		limits[unix.RLIMIT_CPU] = unix.Rlimit{Cur: uint64(r.CPU.Seconds()), Max: uint64(r.CPU.Seconds()) + 5}
	}
	if r.File > 0 {
		limits[unix.RLIMIT_FSIZE] = unix.Rlimit{Cur: uint64(r.File), Max: uint64(r.File)}
	}
	for resource, l := range limits {
		if err := unix.Setrlimit(resource, &l); err != nil {
			return fmt.Errorf("limiting resource %d: %w", resource, err)
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(killedFirst), 0) // without /proc it is as likely as others
	return nil
}

// confine leaves the program the files and the port that it needs, as far as the
// kernel's version of Landlock goes. What it may read it need not list.
func confine(r Rules, program string) error {
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	// The libraries of a program that was installed elsewhere lie beside its folder.
	beside := filepath.Join(filepath.Dir(filepath.Dir(program)), "lib")
	read := slices.Concat([]string{program, beside}, libraries, r.Read)
	rules := []landlock.Rule{
		landlock.ROFiles(read...).IgnoreIfMissing(), // the program will say so, if it needs one
		landlock.PathAccess(plainFiles, r.Write...),
		landlock.RWFiles("/dev/null").IgnoreIfMissing(),
	}
	if r.Connect > 0 {
		rules = append(rules, landlock.ConnectTCP(uint16(r.Connect)))
	}
	if err := landlock.V11.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("confining to files and a port: %w", err)
	}
	return nil
}
