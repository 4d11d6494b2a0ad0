package runner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cutroom/cutroom/shared/azq"
)

// A scratch directory has a random name. Its owner holds a lock on it, which the kernel
// releases when the process ends in any way. Process ids would not do, because the first
// process of every container has the same.
const scratchPrefix = "cutroom-scratch-"

// errTaken says that a living process has the lock of a directory, or that it was removed.
var errTaken = errors.New("another process has it, or removed it")

// Scratch is a directory for temporary files that only this process uses.
type Scratch struct {
	Dir string

	mu   sync.Mutex
	lock *os.File // the directory, opened; nil at first
}

// MakeScratch makes a directory for this process below parent. Other workers may use the
// same parent, also from other containers that share a volume.
func MakeScratch(parent string) (*Scratch, error) {
	for {
		s := &Scratch{Dir: filepath.Join(parent, scratchPrefix+rand.Text())}
		err := s.keep()
		if errors.Is(err, errTaken) {
			continue // another worker's Sweep found the new directory before it was locked
		}
		if err != nil {
			return nil, fmt.Errorf("make scratch directory: %w", err)
		}
		return s, nil
	}
}

// keep makes the directory and locks it, unless that is so. A cleaner of temporary files
// takes it.
func (s *Scratch) keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if !leadsTo(s.Dir, s.lock) {
		lock, err := lockDir(s.Dir)
		if err != nil {
			return err
		}
		_ = s.lock.Close() // of a directory that a cleaner took
		s.lock = lock
	}
	return os.Chmod(s.Dir, 0o700) //nolint:gosec // a directory of this user alone
}

// Close removes the directory and then releases its lock.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(os.RemoveAll(s.Dir), s.lock.Close())
}

// Sweep removes the directories of workers that were killed and returns how many. Any
// number of workers may call it at once.
func (s *Scratch) Sweep() (removed int, _ error) {
	parent := filepath.Dir(s.Dir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return 0, fmt.Errorf("look for old scratch directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		lock, err := lockDir(dir)
		if errors.Is(err, errTaken) {
			continue // its owner lives, or another sweep was first
		}
		if err == nil {
			err = os.RemoveAll(dir)
			_ = lock.Close()
		}
		if err == nil {
			removed++
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("remove old scratch directories: %w", err)
	}
	return removed, nil
}

// lockDir opens a directory and takes its lock without waiting, or returns errTaken.
// Another opening of it cannot take the lock, not even in this process. Child processes
// lose it when they start their program, because Go opens files with close-on-exec.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil && leadsTo(dir, f) {
		return f, nil
	}
	_ = f.Close()
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil, errTaken
	}
	return nil, fmt.Errorf("lock a scratch directory: %w", err)
}

func leadsTo(name string, open *os.File) bool {
	named, err := os.Stat(name)
	if err != nil {
		return false
	}
	info, err := open.Stat()
	return err == nil && os.SameFile(named, info)
}

// Probe finds out whether the directory takes files, and makes it again when it was
// removed: need bytes must be free, and 1 MiB is written, read and removed. What fails
// is trouble of kind "disk". Safe to repeat, also while steps run.
func (s *Scratch) Probe(need int64) error {
	err := s.keep()
	if err == nil {
		err = CheckFreeSpace(s.Dir, need)
	}
	if err == nil {
		err = tryFile(s.Dir)
	}
	return diskTrouble("probe the scratch directory", err)
}

func tryFile(dir string) error {
	file, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(make([]byte, 1<<20))
	if err == nil {
		err = file.Sync() // some file systems report errors only here
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = os.ReadFile(file.Name())
	return err
}

// CheckFreeSpace returns trouble of kind "disk", which costs the item nothing, when this user
// may not write need bytes below dir, or when that cannot be found out.
func CheckFreeSpace(dir string, need int64) error {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	if free := int64(fs.Bavail) * int64(fs.Bsize); err == nil && free < need {
		err = fmt.Errorf("it has %d MiB left, and %d are needed", free>>20, need>>20)
	}
	return diskTrouble("look for room on the scratch disk", err)
}

// CheckFreeSpace asks for bytes on top of what must stay free in any case.
func (w *Work[V, P]) CheckFreeSpace(bytes int64) error { return CheckFreeSpace(w.Dir, w.room+bytes) }

// diskError says that an error of a local file is not the item's doing.
type diskError struct{ error }

func (e diskError) Unwrap() error { return e.error }

// Dependency is what package azq asks for.
func (diskError) Dependency() string { return azq.Disk }

// diskTrouble makes a diskError of an error; nil stays nil.
func diskTrouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	return diskError{fmt.Errorf("%s: %w", doing, err)}
}
