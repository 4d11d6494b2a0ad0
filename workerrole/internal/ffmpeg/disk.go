package ffmpeg

import (
	"context"
	"os"
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
func (c command) watchDir(ctx context.Context, over func()) (end func()) {
	if c.dir == "" {
		return func() {}
	}
	before, entries := usage(c.dir)
	used := UsageOf(ctx)
	look := func() bool {
		bytes, n := usage(c.dir)
		raise(&used.disk, bytes)
		tooMuch := bytes-before > c.limits.file || n-entries > maxEntries
		if tooMuch {
			over()
		}
		return tooMuch
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				look()
				return
			case <-tick.C:
				if look() {
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
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
