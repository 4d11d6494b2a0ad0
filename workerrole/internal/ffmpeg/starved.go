package ffmpeg

import (
	"sync"
	"time"
)

const (
	// starvedLook is the pause between two looks at a program.
	starvedLook = 5 * time.Second
	// starvedCPU is how much processor time a program may use up without moving. With
	// less it may be healthy: no chunk needs so much for its next frame.
	starvedCPU = 30 * time.Second
)

// watchStarved keeps a program that waits for a processor from counting as stalled. On a
// machine that is busy with other things one that steps back may get none for minutes, and
// that is not the film's fault. A program that waits for anything else, or computes and
// does not move, says nothing here. It returns what ends the watch.
func (w *progressWriter) watchStarved(pid int, every, most time.Duration) (end func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		moves, base := -1, time.Duration(0)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			wants, used, known := processorOf(pid)
			if n := w.moves(); n != moves {
				moves, base = n, used
			} else if known && wants && used-base < most {
				w.repeat()
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

// moves is how often the work has moved.
func (w *progressWriter) moves() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

// repeat reports what was reported last.
func (w *progressWriter) repeat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report(w.last)
}
