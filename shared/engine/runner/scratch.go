package runner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cutroom/cutroom/shared/azq"
)

// A scratch directory has a random name. Its owner holds a lock on it, which the kernel
// releases when the process ends in any way. Process ids would not do, because the first
// process of every container has the same.
const scratchPrefix = "cutroom-scratch-"

// Scratch is a directory for temporary files that only this process uses.
type Scratch struct {
	Dir string

	mu   sync.Mutex
	lock *os.File // the directory, opened
}

// MakeScratch removes what killed workers left below parent, and makes a directory for this
// process there. Other workers may use the same parent, also from other containers that share a
// volume.
func MakeScratch(parent string, log *slog.Logger) (*Scratch, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("make the parent of scratch directories: %w", err)
	}
	sweep(parent, log)
	unnamed, err := os.MkdirTemp(parent, "cutroom-new-")
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	s := &Scratch{Dir: filepath.Join(parent, scratchPrefix+rand.Text())}
	if s.lock, err = lockDir(unnamed); err != nil {
		return nil, err
	}
	if err := os.Rename(unnamed, s.Dir); err != nil { // others sweep it from now on, and it is locked
		return nil, fmt.Errorf("name scratch directory: %w", err)
	}
	return s, nil
}

// Close removes the directory and then releases its lock.
func (s *Scratch) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(os.RemoveAll(s.Dir), s.lock.Close())
}

// sweep removes the directories of workers that were killed. Any number of workers may do it at
// once.
func sweep(parent string, log *slog.Logger) {
	names, _ := fs.Glob(os.DirFS(parent), scratchPrefix+"*")
	for _, name := range names {
		dir := filepath.Join(parent, name)
		lock, err := lockDir(dir)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // its owner lives, or another sweep was first
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(dir), lock.Close())
		}
		if err != nil {
			log.Warn("remove the scratch directory of a killed worker", "error", err)
			continue
		}
		log.Info("removed the scratch directory of a killed worker", "name", name)
	}
}

// lockDir opens a directory and takes its lock without waiting. Another opening of it cannot
// take the lock, not even in this process. Child processes lose it when they start their
// program, because Go opens files with close-on-exec.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock a scratch directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock a scratch directory: %w", err), f.Close())
	}
	return f, nil
}

// keep makes the directory again that a cleaner of temporary files took, and locks it, or the
// next worker that starts would sweep it.
func (s *Scratch) keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(s.Dir)
	if err != nil {
		return err
	}
	_ = s.lock.Close() // of the directory that was taken
	s.lock = lock
	return nil
}

// Probe finds out whether the directory takes files, and makes it again when it was
// removed: need bytes must be free, and 1 MiB is written, read and removed. What fails
// is trouble of kind "disk". Safe to repeat, also while steps run.
func (s *Scratch) Probe(need int64) error {
	err := s.keep()
	if err == nil {
		err = checkFreeSpace(s.Dir, need)
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

// checkFreeSpace returns trouble of kind "disk", which costs the item nothing, when this user
// may not write need bytes below dir, or when that cannot be found out.
func checkFreeSpace(dir string, need int64) error {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	if free := int64(fs.Bavail) * int64(fs.Bsize); err == nil && free < need {
		err = fmt.Errorf("it has %d MiB left, and %d are needed", free>>20, need>>20)
	}
	return diskTrouble("look for room on the scratch disk", err)
}

// CheckFreeSpace asks for bytes on top of what must stay free in any case.
func (w *Work[V, P]) CheckFreeSpace(bytes int64) error { return checkFreeSpace(w.Dir, w.room+bytes) }

// diskTrouble says that an error of a local file is not the item's doing; nil stays nil.
func diskTrouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	return azq.Trouble(azq.Disk, fmt.Errorf("%s: %w", doing, err))
}
