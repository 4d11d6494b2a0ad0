package ffmpeg

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxLine is the longest line of output that is waited for.
const maxLine = 4 << 10

// lineWriter passes on the lines that are written to it, without their ends.
type lineWriter struct {
	line func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			break
		}
		w.line(strings.TrimSpace(string(line)))
		w.rest = rest
	}
	if len(w.rest) > maxLine {
		w.rest = nil
	}
	return len(p), nil
}

// firstFrameLimit is how long ffmpeg may read and decode without writing
// anything and still count as moving: a seek that must start far before the
// chunk produces nothing for a while.
const firstFrameLimit = 5 * time.Minute

// progressWriter reads the key=value lines of -progress.
type progressWriter struct {
	lineWriter
	report    func()
	start     time.Time
	now, last progress
	moved     atomic.Int64 // how often the work has moved
}

// progress is what ffmpeg says about its work so far.
type progress struct{ frames, outTime, bytes string }

func newProgress(report func()) *progressWriter {
	w := &progressWriter{report: report, start: time.Now()}
	w.line = w.read
	return w
}

func (w *progressWriter) read(line string) {
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "frame":
		w.now.frames = value
	case "out_time_us":
		w.now.outTime = value
	case "total_size":
		w.now.bytes = value
	case "progress": // the end of a report
		// ffmpeg's loop reports after each packet it handled, so before the first frame a
		// report in itself means that work moves.
		waiting := (w.now.frames == "" || w.now.frames == "0") && time.Since(w.start) < firstFrameLimit
		if w.now != w.last || waiting {
			w.last = w.now
			w.moved.Add(1)
			w.report()
		}
	}
}

const (
	// starvedLook is the pause between two looks at a program.
	starvedLook = 5 * time.Second
	// starvedCPU is how much processor time a program may use up without moving. With
	// less it may be healthy: no chunk needs so much for its next frame.
	starvedCPU = 30 * time.Second
)

// watchStarved calls alive while a program wants a processor and has used little since it
// moved last. On a machine that is busy with other things a program of low priority may get
// none for minutes, and that is not the film's fault: it has not stalled. Of a program that
// waits for anything else, or computes and does not move, nothing is said. It returns what
// ends the watch.
func watchStarved(pid int, pause, most time.Duration, moved func() int64, alive func()) (end func()) {
	moves, base := int64(-1), time.Duration(0)
	return every(pause, func() bool {
		wants, used := processorOf(pid)
		if n := moved(); n != moves {
			moves, base = n, used
		} else if wants && used-base < most {
			alive()
		}
		return true
	})
}

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
