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
// because Go opens files with close-on-exec. errLocked when somebody has it.
func flock(f *os.File) error { return lock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// flockShared takes a lock that any number of openings may have at once. errLocked when
// somebody has one that is not shared.
func flockShared(f *os.File) error { return lock(f, syscall.LOCK_SH|syscall.LOCK_NB) }

// unlock releases the lock of f at once. Closing f alone is not enough while this process
// is starting a program: until the program runs, the child has the file open, too.
func unlock(f *os.File) error { return lock(f, syscall.LOCK_UN) }

func lock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}
