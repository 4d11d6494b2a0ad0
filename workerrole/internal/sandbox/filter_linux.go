package sandbox

import (
	"fmt"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that ffmpeg, ffprobe and their libraries make, as strace
// shows them for media tests, and their like of other C libraries and processors. All
// other calls fail, those that a later kernel adds, too: a file's mode, owner, times and
// attributes, which Landlock does not look at, watches, shared memory, which outlives a
// program, other processes, and everything that is for an administrator.
var allowed = [][]string{
	{ // start and end of the program, its threads and their signals
		"execve", "exit", "exit_group", "arch_prctl", "set_tid_address", "set_robust_list", "get_robust_list", "rseq", "restart_syscall",
		"futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", "membarrier", "sched_yield", "getcpu", "sched_getaffinity",
		"sched_getparam", "sched_getscheduler", "sched_get_priority_max", "sched_get_priority_min", "getpriority",
		"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait", "sigaltstack", "pause", "tgkill",
	},
	{ // memory
		"brk", "mmap", "mprotect", "munmap", "mremap", "madvise", "mincore", "mlock", "get_mempolicy", "set_mempolicy",
	},
	{ // files, which Landlock bounds
		"open", "openat", "openat2", "close", "close_range", "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2",
		"lseek", "fadvise64", "fallocate", "ftruncate", "fsync", "fdatasync", "stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs",
		"access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents64", "getcwd", "rename", "renameat", "renameat2", "unlink", "unlinkat",
		"dup", "dup2", "dup3", "fcntl", "flock", "pipe", "pipe2", "eventfd2",
		"poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	},
	{ // time, and what the machine and the process are
		"clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "times", "getrusage", "uname", "sysinfo", "getrandom", "getrlimit",
		"getpid", "getppid", "gettid", "getpgrp", "getpgid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "capget",
	},
}

// allowedWith are allowed if their arguments are so. Of two lines for a call one is enough.
var allowedWith = []seccomp.NameWithConditions{
	{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
	// Names of threads and memory; not, for one, that it may outlive its worker.
	{Name: "prctl", Conditions: is(0, unix.PR_SET_NAME)}, {Name: "prctl", Conditions: is(0, unix.PR_GET_NAME)}, {Name: "prctl", Conditions: is(0, unix.PR_SET_VMA)},
	{Name: "prctl", Conditions: is(0, unix.PR_GET_NO_NEW_PRIVS)}, {Name: "prctl", Conditions: is(0, unix.PR_CAPBSET_READ)},
	// Is it a terminal, and how wide? Not what types into one.
	{Name: "ioctl", Conditions: is(1, unix.TCGETS)}, {Name: "ioctl", Conditions: is(1, unix.TIOCGWINSZ)}, {Name: "ioctl", Conditions: is(1, unix.TIOCINQ)},
	{Name: "ioctl", Conditions: is(1, fioNonBlocking)},
	// Process 0 is the caller: a limit of another process of the user ends it, a priority
	// keeps it waiting.
	{Name: "prlimit64", Conditions: is(0, 0)}, {Name: "sched_setaffinity", Conditions: is(0, 0)}, {Name: "sched_setscheduler", Conditions: is(0, 0)},
	{Name: "setpriority", Conditions: slices.Concat(is(0, unix.PRIO_PROCESS), is(1, 0))},
}

// allowedToConnect are for a program that reads from a port: which, Landlock says. It does
// not look at TCP Fast Open, which connects by sending, nor at protocols beside TCP.
var allowedToConnect = []seccomp.NameWithConditions{
	{Name: "socket", Conditions: slices.Concat(tcp, is(2, 0))}, {Name: "socket", Conditions: slices.Concat(tcp, is(2, unix.IPPROTO_TCP))},
	forbid("sendto", 3, unix.MSG_FASTOPEN), forbid("sendmsg", 2, unix.MSG_FASTOPEN), forbid("sendmmsg", 3, unix.MSG_FASTOPEN),
}

var connecting = []string{"connect", "recvfrom", "recvmsg", "recvmmsg", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown"}

// tcp is what socket is called with; the upper bits of the kind are flags.
var tcp = slices.Concat(is(0, unix.AF_INET), seccomp.ArgumentConditions{
	{Argument: 1, Operation: seccomp.BitsSet, Value: unix.SOCK_STREAM}, {Argument: 1, Operation: seccomp.BitsNotSet, Value: 0xf &^ unix.SOCK_STREAM}})

const fioNonBlocking = 0x5421 // FIONBIO

func is(argument uint32, value uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.Equal, Value: value}}
}

func forbid(call string, argument uint32, bits uint64) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: call, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsNotSet, Value: bits}}}
}

// filter limits the system calls of this thread and of the program that it becomes.
// network says whether TCP sockets are allowed.
func filter(network bool) error {
	here, err := arch.GetInfo("")
	if err != nil || !seccomp.Supported() {
		return nil // Open has said so
	}
	names, conditions := slices.Concat(allowed...), slices.Clone(allowedWith)
	if network {
		names, conditions = append(names, connecting...), append(conditions, allowedToConnect...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, known := here.SyscallNames[name]; return !known }) // another processor's
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
		{Names: names, NamesWithCondtions: conditions, Action: seccomp.ActionAllow},
		// Threads are made by clone. The C library falls back to it from clone3, whose
		// flags a filter cannot read.
		{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
	}}
	if err := seccomp.LoadFilter(seccomp.Filter{Policy: policy}); err != nil {
		return fmt.Errorf("limiting system calls: %w", err)
	}
	return nil
}

// canFilter reports whether the kernel has filters, and we have the numbers.
func canFilter() bool {
	_, err := arch.GetInfo("")
	return err == nil && seccomp.Supported()
}
