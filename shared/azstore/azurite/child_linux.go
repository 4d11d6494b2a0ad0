package azurite

import "syscall"

// childAttributes puts the emulator into a process group of its own, so that a
// Ctrl-C in the terminal reaches the starter first, which then stops what
// uses the storage before it. The kernel ends it if the starter is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
