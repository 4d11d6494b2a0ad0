package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrRunning says that another stack uses the same folder.
var ErrRunning = errors.New("a stack is running from this folder already")

// lockFile is held for the life of a stack, by the process that started it, and
// contains its pid. The system releases it when that process ends in any way.
const lockFile = "lock"

// dataDir is the folder of what the emulator stores, within that of the state.
const dataDir = "data"

// lock takes dir for this process.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	for range 10 { // Running of another process holds it for a moment
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := readPID(file.Name())
		_ = file.Close()
		return nil, fmt.Errorf("%w: %s, pid %d", ErrRunning, dir, pid)
	}
	if err == nil {
		err = errors.Join(file.Truncate(0), writeAt0(file, strconv.Itoa(os.Getpid())+"\n"))
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return file, nil
}

func writeAt0(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// Running returns the pid of the process that runs a stack from dir, or 0.
func Running(dir string) int {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return 0 // no process holds it; closing releases it
	}
	pid, err := readPID(file.Name())
	if err != nil {
		return 0
	}
	return pid
}

// pidPath is where a process's pid is written: .run/webrole-1.pid.
func pidPath(dir, name string) string { return filepath.Join(dir, name+".pid") }

// LogPath is where a process's output goes: .run/webrole-1.log.
func LogPath(dir, name string) string { return filepath.Join(dir, name+".log") }

func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read pid: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read pid from %s: %w", path, err)
	}
	return pid, nil
}

// writePID replaces the file in one step, so that a reader never sees half of it.
func writePID(dir, name string, pid int) error {
	path := pidPath(dir, name)
	next := path + ".next"
	if err := os.WriteFile(next, []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return fmt.Errorf("write pid of %s: %w", name, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write pid of %s: %w", name, err)
	}
	return nil
}

// maxLog is the size in bytes at which a log is set aside when its process starts.
const maxLog = 16 << 20

// openLog opens a log for appending. A large one becomes NAME.log.old first.
func openLog(dir, name string) (*os.File, error) {
	path := LogPath(dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("set the log of %s aside: %w", name, err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	return file, nil
}

// tail returns the last lines of a file, for error messages.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
