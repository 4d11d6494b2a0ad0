package ownport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// The test binary is also a program that listens, and one that starts it and asks whose
// the port is.
func TestMain(m *testing.M) {
	switch arg := func(n int) string { return append(os.Args, "", "", "")[n] }; arg(1) {
	case "listen":
		if arg(3) == "hidden" {
			_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
		}
		_, err := net.Listen("tcp", arg(2))
		fmt.Println(err)
		time.Sleep(time.Minute)
	case "ask":
		fmt.Println(ask(arg(2)))
	default:
		os.Exit(m.Run())
	}
}

func ask(hidden string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	port, err := Free()
	if err != nil {
		return err.Error()
	}
	listener := exec.CommandContext(ctx, "/proc/self/exe", "listen", address(port), hidden)
	if err := listener.Start(); err != nil {
		return err.Error()
	}
	err = Wait(ctx, port, listener.Process.Pid, make(chan struct{}))
	_ = listener.Process.Kill()
	switch {
	case err == nil:
		return "its own"
	case errors.Is(err, ErrHidden):
		return "hidden"
	}
	return err.Error()
}

// A process that hides its open files from its own user is told from a stranger.
func TestHiddenIsNoStranger(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"seen": "its own\n", "hidden": "hidden\n"} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "ask", arg)
		if os.Getuid() == 0 { // from whom nothing is hidden
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if said, err := cmd.Output(); string(said) != want {
			t.Errorf("%s: %q, %v, want %q", arg, said, err, want)
		}
	}
}
