package ffmpeg

import (
	"context"
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

type starvedKey struct{}

// WhenStarved returns a context below which alive is called while a program waits for a
// processor. On a machine that is busy with other things one that steps back may get none
// for minutes, and that is not the film's fault: it has not stalled. Of a program that waits
// for anything else, or computes and does not move, nothing is said. alive is called by
// several goroutines.
func WhenStarved(ctx context.Context, alive func()) context.Context {
	return context.WithValue(ctx, starvedKey{}, alive)
}

// watchStarved calls alive while a program wants a processor and has used little since it
// moved last. It returns what ends the watch.
func watchStarved(pid int, every, most time.Duration, moved func() int, alive func()) (end func()) {
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
			if n := moved(); n != moves {
				moves, base = n, used
			} else if known && wants && used-base < most {
				alive()
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
