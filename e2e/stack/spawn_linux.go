package stack

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// ownGroup gives the child a process group of its own, so that Ctrl-C in a
// terminal reaches us only and we decide what stops and in which order. If we
// are killed the kernel kills the child: no test and no demo leaves one behind.
// A role must survive that anyway; that is what the product is about.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

type startRequest struct {
	start func() error
	done  chan error
}

// starts is served by one thread that never ends, because Linux sends the death
// signal when the thread that started the child ends, not the process.
var starts = sync.OnceValue(func() chan startRequest {
	requests := make(chan startRequest)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.done <- r.start()
		}
	}()
	return requests
})

// onLastingThread calls start, which starts a process, where the child's death
// signal cannot come too early.
func onLastingThread(start func() error) error {
	r := startRequest{start: start, done: make(chan error, 1)}
	starts() <- r
	return <-r.done
}
