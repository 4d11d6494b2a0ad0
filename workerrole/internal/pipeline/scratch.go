package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// scratchPrefix starts the name of every worker's scratch directory; the process
// id follows.
const scratchPrefix = "cutroom-worker-"

// MakeScratch makes a directory for this process below parent and removes those
// of workers that were killed: nobody else would.
func MakeScratch(parent string) (string, error) {
	old, err := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
	if err != nil {
		return "", fmt.Errorf("look for old scratch directories: %w", err)
	}
	for _, dir := range old {
		name := strings.TrimPrefix(filepath.Base(dir), scratchPrefix)
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || syscall.Kill(pid, 0) == nil {
			continue
		}
		_ = os.RemoveAll(dir) // another worker may be removing it too
	}
	dir := filepath.Join(parent, scratchPrefix+strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	return dir, nil
}

// ProbeScratch writes 1 MiB below dir and removes it: the question whether the
// disk takes files, for the consumer's circuit breaker.
func ProbeScratch(dir string) error {
	file, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return fmt.Errorf("probe the scratch directory: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(make([]byte, 1<<20))
	if err == nil {
		err = file.Sync() // some file systems find out late
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("probe the scratch directory: %w", err)
	}
	return nil
}
