package failpoint

import (
	"os"
	"runtime"
	"syscall"
)

// freeze stops the process here. The signal goes to the calling thread: one for
// the whole process goes to any thread, which on a busy machine stops the others
// only when its turn comes. Woken, the caller goes on at once, before timers
// tell the rest of the process how late it is: the worst zombie there can be.
func freeze() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP)
}
