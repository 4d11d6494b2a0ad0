//go:build linux || darwin || freebsd || openbsd || netbsd || dragonfly

package pipeline

import (
	"errors"
	"os"
	"syscall"
)

const canFlock = true

// flock takes a lock that belongs to f. Another opening of the same file cannot take it,
// not even in this process. Child processes lose it when they start their program,
// because Go opens files with close-on-exec. errLocked when another opening has it.
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
