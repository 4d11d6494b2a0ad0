package pipeline

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

	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// A scratch directory has a random name. Its owner holds a lock on the file
// <directory>.lock, which the kernel releases when the process ends in any way.
// Process ids would not do, because the first process of every container has the same.
const (
	scratchPrefix = "cutroom-scratch-"
	lockSuffix    = ".lock"
)

// errLocked says that a living process holds the lock.
var errLocked = errors.New("locked by a living process")

// Scratch is a directory for temporary files that only this process uses.
type Scratch struct {
	Dir string

	parent string
	mu     sync.Mutex
	lock   *os.File
}

// MakeScratch makes a directory for this process below parent. Other workers may use the
// same parent, also from other containers that share a volume.
func MakeScratch(parent string) (*Scratch, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("make parent of scratch directory: %w", err)
	}
	for {
		dir := filepath.Join(parent, scratchPrefix+rand.Text())
		// The lock is taken before the directory is made and released after it is
		// removed, so a directory whose lock is free has no owner.
		lock, err := lockFile(dir+lockSuffix, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			continue // another worker's Sweep removed the new file before it was locked
		}
		if err != nil {
			return nil, fmt.Errorf("lock scratch directory: %w", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			_ = lock.Close()
			return nil, fmt.Errorf("make scratch directory: %w", err)
		}
		return &Scratch{Dir: dir, parent: parent, lock: lock}, nil
	}
}

// Close removes the directory and then releases its lock.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.RemoveAll(s.Dir)
	if e := os.Remove(s.lock.Name()); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, s.lock.Close())
}

// Sweep removes the directories of workers that were killed and returns how many. Any
// number of workers may call it at once.
func (s *Scratch) Sweep() (removed int, _ error) {
	entries, err := os.ReadDir(s.parent)
	if err != nil {
		return 0, fmt.Errorf("look for old scratch directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) || !strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		name := filepath.Join(s.parent, e.Name())
		lock, err := lockFile(name, 0)
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			continue // its owner lives, or another sweep was first
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		err = os.RemoveAll(strings.TrimSuffix(name, lockSuffix))
		if err == nil {
			err = os.Remove(name)
			removed++
		}
		errs = append(errs, err, lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("remove old scratch directories: %w", err)
	}
	return removed, nil
}

// lockFile opens a file and takes its lock without waiting. errLocked, or
// os.ErrNotExist when the file was removed, also between opening and locking.
func lockFile(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err = flock(f); err == nil {
		err = stillNamed(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

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

// stillNamed returns os.ErrNotExist unless the name of f still leads to f.
func stillNamed(f *os.File) error {
	named, err := os.Stat(f.Name())
	if err != nil {
		return err
	}
	open, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(named, open) {
		return os.ErrNotExist
	}
	return nil
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

// keep makes what is missing of the directory and its lock. A cleaner of temporary files
// takes both.
func (s *Scratch) keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stillNamed(s.lock) != nil {
		lock, err := lockFile(s.lock.Name(), os.O_CREATE)
		if err != nil {
			return err
		}
		_ = s.lock.Close()
		s.lock = lock
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(s.Dir, 0o700) //nolint:gosec // a directory of this user alone
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

// CheckFreeSpace returns trouble of kind "disk" when this user may not write need bytes below dir, or
// when that cannot be found out. It is asked before a step is taken, and once more by a step
// that knows how much it will write: a disk that is nearly full is the worker's trouble, and
// costs the item nothing.
func CheckFreeSpace(dir string, need int64) error {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	if free := int64(fs.Bavail) * int64(fs.Bsize); err == nil && free < need {
		err = fmt.Errorf("it has %d MiB left, and %d are needed", free>>20, need>>20)
	}
	return diskTrouble("look for room on the scratch disk", err)
}

// CheckFreeSpace is the function of that name for the scratch directory of the attempt, on top of what must stay
// free in any case.
func (w *Work) CheckFreeSpace(bytes int64) error { return CheckFreeSpace(w.Dir, w.room+bytes) }

// diskTrouble says that an error of a local file is not the item's doing. nil stays nil.
func diskTrouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &ffmpeg.DependencyError{Kind: ffmpeg.DiskDependency, Err: fmt.Errorf("%s: %w", doing, err)}
}
