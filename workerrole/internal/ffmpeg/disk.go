package ffmpeg

import (
	"context"
	"os"
	"sync"
	"time"
)

const (
	// lookEvery is how often a run's directory is looked at. It bounds what a run can
	// write beyond its limit.
	lookEvery = 250 * time.Millisecond
	// maxEntries is how many files a run may make: each takes room, too.
	maxEntries = 1000
)

// watchDir calls over when the run's directory has grown by more than the run may write,
// in all files together: the system limits each file on its own only. The returned
// function ends the watch with a last look, and must be called before what over does
// is read.
func (c command) watchDir(runs *Runs, over func()) (end func()) {
	if c.dir == "" {
		return func() {}
	}
	before, entries := usage(c.dir)
	look := func() (more bool) {
		bytes, n := usage(c.dir)
		runs.add(func(u *Usage) { u.Disk = max(u.Disk, bytes) })
		if bytes-before > c.limits.file || n-entries > maxEntries {
			over()
			return false
		}
		return true
	}
	stop := every(lookEvery, look)
	return func() {
		stop()
		look()
	}
}

// every calls look at each tick, until it wants no more or the returned function is called,
// which waits for a call under way.
func every(pause time.Duration, look func() (more bool)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		for tick := time.NewTicker(pause); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if !look() {
					return
				}
			}
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// usage is what a directory's files take, directories in it not counted.
func usage(dir string) (bytes int64, entries int) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes, len(list)
}
