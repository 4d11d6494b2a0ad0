package ffmpeg

import (
	"os"
	"sync"
	"time"
)

// The programs of a tool are held this long at most, and then go on for at least as long
// as the pause says, no matter who asks. So viewers who seek all the time cost the others a
// third of their time, and no lease.
const (
	holdAtMost = 3 * time.Second
	holdPause  = 6 * time.Second
)

// holding knows the programs of a tool that step back. It is safe for concurrent use.
type holding struct {
	mu      sync.Mutex
	running map[*os.Process]bool
	held    bool
	notTill time.Time
}

// add takes a program that has started, and returns what forgets it.
func (h *holding) add(p *os.Process) (forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		h.running = map[*os.Process]bool{}
	}
	h.running[p] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.running, p)
	}
}

// HoldOthers stops the tool's programs that step back, for what a viewer waits for: a
// lower priority alone leaves them most of a small machine, because they have many
// threads. It returns what lets them go on. They go on by themselves after 3 s, and with
// the end of this process they end, stopped or not. Where a process cannot be stopped, and
// soon after the last time, it does nothing.
func (t *Tool) HoldOthers() (release func()) {
	h := &t.others
	h.mu.Lock()
	defer h.mu.Unlock()
	if signalStop == nil || h.held || time.Now().Before(h.notTill) {
		return func() {}
	}
	var stopped []*os.Process
	for p := range h.running {
		if p.Signal(signalStop) == nil { // else it has ended
			stopped = append(stopped, p)
		}
	}
	h.held = true
	goOn := sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, p := range stopped {
			_ = p.Signal(signalGoOn) // it was killed meanwhile; nothing to do
		}
		h.held, h.notTill = false, time.Now().Add(holdPause)
	})
	timer := time.AfterFunc(holdAtMost, goOn)
	return func() {
		timer.Stop()
		goOn()
	}
}
