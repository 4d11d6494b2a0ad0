package cage

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var forks = []uintptr{unix.SYS_FORK, unix.SYS_VFORK}
