package stack

import (
	"time"
)

// A process that dies is started again after a pause that doubles while it
// keeps dying young.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
	youth      = 10 * time.Second
)

// supervise restarts a role whenever it ends without being asked to, until Stop.
func (s *Stack) supervise(r *role) {
	s.keepAlive(r.name,
		func() <-chan struct{} { return r.process().exited },
		r.isWanted,
		func() error {
			if started, err := r.startAgain(s.background); err != nil || !started {
				return err
			}
			s.Say("%s is ready again at %s (pid %d)", r.name, r.url(false), s.Pid(r.name))
			return nil
		})
}

// superviseAzurite does the same for the emulator, on the same ports and data.
func (s *Stack) superviseAzurite() {
	s.keepAlive(Azurite,
		func() <-chan struct{} {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.azurite.Exited()
		},
		func() bool { return true },
		func() error { return s.startAzurite(s.background) })
}

// keepAlive is the life of one supervisor: wait for the end, pause, start again.
// A start that fails counts as another early death.
func (s *Stack) keepAlive(name string, exited func() <-chan struct{}, wanted func() bool, start func() error) {
	pause := firstPause
	started := time.Now()
	for {
		select {
		case <-s.background.Done():
			return
		case <-exited():
		}
		if !wanted() {
			// It was stopped on purpose; Restart may bring it back.
			if !s.sleep(firstPause) {
				return
			}
			continue
		}
		if time.Since(started) > youth {
			pause = firstPause
		}
		s.Say("%s ended; starting it again in %v", name, pause)
		if !s.sleep(pause) {
			return
		}
		pause = min(2*pause, maxPause)
		started = time.Now()
		if err := start(); err != nil {
			s.Say("%v", err)
		}
	}
}

// sleep returns false when the stack is being stopped.
func (s *Stack) sleep(d time.Duration) bool {
	select {
	case <-s.background.Done():
		return false
	case <-time.After(d):
		return true
	}
}
