package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// resetFile is how another process asks for an empty stack, and is answered: it has asked,
// then done or what went wrong. A stack that starts removes it.
const (
	resetFile = "reset"
	asked     = "asked"
	done      = "done"
)

// resetTimeout is longer than roles may drain and all may start.
const resetTimeout = 3 * time.Minute

// lookPause is how long neither side of a reset looks at the file.
const lookPause = 100 * time.Millisecond

type starter = func(context.Context, Options) (*Stack, error)

// Keep holds the stack that start made of o until ctx ends, and stops it. Meanwhile Reset of
// its folder, which o names, starts it anew: empty, with the same programs on the same ports.
func (s *Stack) Keep(ctx context.Context, o Options, start starter) error {
	path := filepath.Join(s.dir, resetFile)
	for {
		select {
		case <-ctx.Done():
			s.Say("stopping")
			return s.Stop()
		case <-time.After(lookPause):
		}
		if text, _ := os.ReadFile(path); string(text) != asked {
			continue
		}
		s.Say("starting anew, and empty")
		next, err := s.again(ctx, o, start)
		answer := done
		if err != nil {
			answer = err.Error()
		}
		if err := errors.Join(err, os.WriteFile(path, []byte(answer), 0o600)); err != nil {
			return fmt.Errorf("start anew: %w", err)
		}
		s = next
	}
}

// again stops the stack, removes what it has stored, and starts its successor, which takes
// over the lock of the folder.
func (s *Stack) again(ctx context.Context, o Options, start starter) (*Stack, error) {
	s.mu.Lock()
	o.lock, s.lock = s.lock, nil
	s.mu.Unlock()
	if err := s.Stop(); err != nil {
		s.Say("%v", err) // was killed, and what it had not done goes as well
	}
	if err := os.RemoveAll(filepath.Join(s.dir, dataDir)); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what is stored: %w", err), o.lock.Close())
	}
	o.Bin = cmp.Or(o.Bin, filepath.Join(s.dir, "bin"))
	o.BlobPort, o.QueuePort, o.TablePort = s.options.BlobPort, s.options.QueuePort, s.options.TablePort
	o.WebAddr, o.WebAdminAddr = s.listens(Web, 0), s.listens(Web, 1)
	o.WorkerAdminAddr = s.listens(Worker(1), 0)
	return start(ctx, o)
}

// listens is where the n-th listener of a role is, or "" if the stack has no such role.
func (s *Stack) listens(name string, n int) string {
	r, err := s.role(name)
	if err != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listeners[n].addr.String()
}

// Reset empties the stack that runs from dir, which Keep holds in another process, and returns
// when it is ready again. Where none runs it removes what the last one has stored. All videos,
// messages and rows are lost. Safe to repeat.
func Reset(ctx context.Context, dir string) (running bool, _ error) {
	if Running(dir) == 0 {
		return false, removeData(dir)
	}
	path := filepath.Join(dir, resetFile)
	if err := os.WriteFile(path, []byte(asked), 0o600); err != nil {
		return true, fmt.Errorf("ask for an empty stack: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	for {
		text, err := os.ReadFile(path)
		switch answer := string(text); {
		case err != nil:
			return true, fmt.Errorf("reset: the stack has just been started; ask again: %w", err)
		case answer == done:
			return true, nil
		case answer != asked && answer != "":
			return true, fmt.Errorf("reset: the stack did not start again: %s", answer)
		case Running(dir) == 0:
			return true, errors.New("reset: the stack has ended meanwhile")
		}
		select {
		case <-ctx.Done():
			return true, errors.Join(fmt.Errorf("reset: no answer from pid %d: %w", Running(dir), ctx.Err()), os.Remove(path))
		case <-time.After(lookPause):
		}
	}
}

// removeData removes what a stack has stored that does not run.
func removeData(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, dataDir)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := lock(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, dataDir)), lock.Close()); err != nil {
		return fmt.Errorf("remove what is stored: %w", err)
	}
	return nil
}
