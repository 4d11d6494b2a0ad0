//go:build unix && !linux

package failpoint

import (
	"os"
	"syscall"
	"time"
)

// freeze stops the process here, or a moment later: the signal goes to any
// thread. Time goes on while we are stopped, so the pause costs nothing then.
func freeze() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(time.Second)
}
