package cage

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var forks []uintptr // clone is the only one
