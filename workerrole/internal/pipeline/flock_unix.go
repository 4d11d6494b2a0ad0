//go:build linux || darwin || freebsd || openbsd || netbsd || dragonfly

package pipeline

import (
	"errors"
	"os"
	"syscall"
)

const canFlock = true

// flock takes a lock that belongs to this opening of the file: two openings
// exclude each other, also in one process, and child processes do not inherit it,
// because Go's files close on exec.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}
