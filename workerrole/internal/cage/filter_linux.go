package cage

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where a filter finds the parts of a system call (struct seccomp_data, little endian).
const (
	callNumber = 0
	callArch   = 4
	callArgs   = 16
	argSize    = 8
)

// verdict is what becomes of a system call: it is made, or fails with an error.
type verdict uint32

const allow verdict = unix.SECCOMP_RET_ALLOW

func refuse(errno unix.Errno) verdict { return verdict(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

// refused are calls that a program that converts media never makes, and that reach into
// other processes or far into the kernel, or let others reach the program. io_uring makes
// calls that no filter sees. A pair of Unix sockets can send datagrams to any other one.
// Landlock does not look at modes, owners, times and attributes of files, nor at watches.
// Memory that belongs to no process outlives the run, and no limit counts it.
var refused = []uintptr{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, setXattrAt, removeXattrAt,
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_MKNODAT,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	unix.SYS_SETPGID, unix.SYS_SETSID,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_VHANGUP,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, // listen alone takes a port, too
	unix.SYS_SOCKETPAIR, unix.SYS_IOPRIO_SET,
}

// Calls since Linux 6.13, the same number everywhere.
const (
	setXattrAt    = 463
	removeXattrAt = 466
)

// refusedWith are calls that are refused when one of the arguments has one of the bits.
var refusedWith = []struct {
	call  uintptr
	args  []uint32
	bits  uint32
	errno unix.Errno
}{
	// TCP Fast Open connects, and Landlock does not look at it.
	{unix.SYS_SENDTO, []uint32{3}, unix.MSG_FASTOPEN, unix.EACCES},
	{unix.SYS_SENDMSG, []uint32{2}, unix.MSG_FASTOPEN, unix.EACCES},
	{unix.SYS_SENDMMSG, []uint32{3}, unix.MSG_FASTOPEN, unix.EACCES},
	// Process 0 is the caller. A limit of another process of the user ends it, a priority
	// keeps it waiting. PRIO_PROCESS is 0, too.
	{unix.SYS_PRLIMIT64, []uint32{0}, ^uint32(0), unix.EPERM},
	{unix.SYS_SCHED_SETAFFINITY, []uint32{0}, ^uint32(0), unix.EPERM},
	{unix.SYS_SCHED_SETSCHEDULER, []uint32{0}, ^uint32(0), unix.EPERM},
	{unix.SYS_SCHED_SETPARAM, []uint32{0}, ^uint32(0), unix.EPERM},
	{unix.SYS_SCHED_SETATTR, []uint32{0}, ^uint32(0), unix.EPERM},
	{unix.SYS_SETPRIORITY, []uint32{0, 1}, ^uint32(0), unix.EPERM},
}

// filter limits the system calls of this thread and of the program that it becomes.
// network says whether TCP sockets are allowed: to which port, Landlock says.
func filter(network bool) error {
	if !canFilter() {
		return nil // Open has said so
	}
	p := program{}
	p.load(callArch)
	p.unless(auditArch, refuse(unix.EPERM)) // another table of numbers
	p.load(callNumber)
	if runtime.GOARCH == "amd64" {
		p.from(1<<30, refuse(unix.EPERM)) // the numbers of x32
	}
	for _, call := range slices.Concat(refusedHere, refused) {
		p.when(uint32(call), refuse(unix.EPERM))
	}
	// Threads are made by clone. The C library falls back to it from clone3, whose
	// flags a filter cannot read.
	p.when(unix.SYS_CLONE3, refuse(unix.ENOSYS))
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(callArgs)
		p.and(unix.CLONE_THREAD)
		p.when(0, refuse(unix.EPERM))
	})
	p.call(unix.SYS_PRCTL, func(p *program) { // it ends with its worker
		p.load(callArgs)
		p.when(unix.PR_SET_PDEATHSIG, refuse(unix.EPERM))
	})
	p.call(unix.SYS_SOCKET, func(p *program) {
		if !network {
			p.end(refuse(unix.EACCES))
			return
		}
		p.load(callArgs)
		p.unless(unix.AF_INET, refuse(unix.EACCES))
		p.load(callArgs + argSize)
		p.and(0xf) // the rest are flags
		p.unless(unix.SOCK_STREAM, refuse(unix.EACCES))
		p.load(callArgs + 2*argSize)
		p.and(^uint32(unix.IPPROTO_TCP)) // 0 is TCP, too; MPTCP is none that Landlock knows
		p.unless(0, refuse(unix.EACCES))
	})
	for _, r := range refusedWith {
		p.call(uint32(r.call), func(p *program) {
			for _, arg := range r.args {
				p.load(callArgs + arg*argSize)
				p.and(r.bits)
				p.unless(0, refuse(r.errno))
			}
		})
	}
	p.end(allow)
	list := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&list)), 0, 0); err != nil {
		return fmt.Errorf("limiting system calls: %w", err)
	}
	return nil
}

// canFilter reports whether the kernel has filters, and we have the numbers.
func canFilter() bool {
	if auditArch == 0 {
		return false
	}
	mode := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&mode)))
	return errno == 0
}

// program is a filter in classic BPF.
type program []unix.SockFilter

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (p *program) load(at uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }

func (p *program) and(mask uint32) { p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask, 0, 0) }

func (p *program) end(v verdict) { p.add(unix.BPF_RET|unix.BPF_K, uint32(v), 0, 0) }

// when ends with a verdict if what was loaded is k.
func (p *program) when(k uint32, v verdict) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, 1)
	p.end(v)
}

// unless ends with a verdict if what was loaded is not k.
func (p *program) unless(k uint32, v verdict) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 1, 0)
	p.end(v)
}

// from ends with a verdict if what was loaded is k or more.
func (p *program) from(k uint32, v verdict) {
	p.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, k, 0, 1)
	p.end(v)
}

// call looks at the arguments of one system call, and allows it if body does not end it.
func (p *program) call(number uint32, body func(*program)) {
	var inner program
	body(&inner)
	inner.end(allow)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, number, 0, uint8(len(inner)))
	*p = append(*p, inner...)
}
