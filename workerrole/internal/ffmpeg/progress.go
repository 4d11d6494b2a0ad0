package ffmpeg

import (
	"bytes"
	"strings"
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
