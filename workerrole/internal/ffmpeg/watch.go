package ffmpeg

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/cutroom/cutroom/shared/engine/runner"
)

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

// firstFrameLimit is how long ffmpeg may read and decode without writing anything and still
// count as moving: decoding may start far before the chunk.
const firstFrameLimit = 5 * time.Minute

// progressWriter reads the key=value lines of -progress.
type progressWriter struct {
	lineWriter
	report    func()
	start     time.Time
	now, last map[string]string // what ffmpeg says about its work
	moved     atomic.Int64      // how often the work has moved
}

func newProgress(report func()) *progressWriter {
	w := &progressWriter{report: report, start: time.Now(), now: map[string]string{}}
	w.line = w.read
	return w
}

func (w *progressWriter) read(line string) {
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "frame", "out_time_us", "total_size":
		w.now[key] = value
	case "progress": // the end of a report
		// ffmpeg's loop reports after packets, so before the first frame a report is movement.
		waiting := cmp.Or(w.now["frame"], "0") == "0" && time.Since(w.start) < firstFrameLimit
		if waiting || !maps.Equal(w.now, w.last) {
			w.last = maps.Clone(w.now)
			w.moved.Add(1)
			w.report()
		}
	}
}

const (
	// starvedLook is the pause between two looks at a program.
	starvedLook = 5 * time.Second
	// starvedCPU is processor time without moving that is more than any next frame takes.
	starvedCPU = 30 * time.Second
)

// watchStarved calls alive while a program wants a processor and has used little since it
// moved last: on a busy machine one of low priority may get none for minutes, and has not
// stalled. One that waits for anything else, or computes and does not move, has. It returns
// what ends the watch.
func watchStarved(pid int, pause, most time.Duration, moved func() int64, alive func()) (end func()) {
	moves, base := int64(-1), time.Duration(0)
	return every(pause, func() {
		wants, used := processorOf(pid)
		base = min(base, used) // threads that ended take their time with them
		if n := moved(); n != moves {
			moves, base = n, used
		} else if wants && used-base < most {
			alive()
		}
	})
}

// processorOf reports whether a thread of the process wants a processor, or is stopped, and
// how much processor time its threads have used. One that is gone wants none, nor does any
// where the system is not Linux.
func processorOf(pid int) (wants bool, used time.Duration) {
	threads, _ := procfs.AllThreads(pid)
	for _, thread := range threads {
		if stat, err := thread.Stat(); err == nil {
			wants = wants || stat.State == "R" || stat.State == "T"
			used += time.Duration(stat.CPUTime() * float64(time.Second))
		}
	}
	return wants, used
}

const (
	// lookEvery bounds what a run can write beyond its limit.
	lookEvery = 250 * time.Millisecond
	// maxEntries is how many files a run may make: each takes room, too.
	maxEntries = 1000
)

// watchDir calls over, perhaps several times, when the run's directory has grown by more than
// the run may write in all files, of which the system limits each alone. The returned function
// ends the watch with a last look: call it before what over does is read.
func (c command) watchDir(runs *Runs, over func()) (end func()) {
	if c.dir == "" {
		return func() {}
	}
	before, entries := usage(c.dir)
	look := func() {
		bytes, n := usage(c.dir)
		runs.add(func(u *runner.Programs) { u.Disk = max(u.Disk, bytes) })
		if bytes-before > c.limits.file || n-entries > maxEntries {
			over()
		}
	}
	stop := every(lookEvery, look)
	return func() {
		stop()
		look()
	}
}

// every calls look at each tick, until stop is called, which waits for a call under way.
func every(pause time.Duration, look func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		for tick := time.NewTicker(pause); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				look()
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
