package ffmpeg

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// fewCores is up to how many cores later chunks wait for a first one.
	fewCores = 4
	// longestWait bounds that: under a load that makes first chunks slow, the
	// others must move on, too.
	longestWait = 3 * time.Second
)

// Begin is to be called before a chunk or a portion of sound is encoded, and what
// it returns afterwards. A first chunk keeps two processes busy, and somebody
// waits for it and for the first portion; on a machine of few cores the others of
// this worker start when those are done, or after 3 s. Work that is [Behind] does
// not wait: with a backlog there is always a first chunk, and slots that wait are
// lost.
func (t *Tool) Begin(ctx context.Context, index int) (end func()) {
	switch {
	case t.FirstChunkProcesses < 2 || runtime.GOMAXPROCS(0) > fewCores:
	case index == 0:
		t.firsts.begin()
		return t.firsts.end
	case !IsBehind(ctx):
		t.firsts.wait(ctx, longestWait)
	}
	return func() {}
}

// firsts counts the first chunks and portions that are being encoded.
type firsts struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0
}

func (f *firsts) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		f.none = make(chan struct{})
	}
	f.n++
}

func (f *firsts) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 {
		close(f.none)
	}
}

// wait returns when there are none, ctx has ended or the time is up.
func (f *firsts) wait(ctx context.Context, longest time.Duration) {
	f.mu.Lock()
	none, n := f.none, f.n
	f.mu.Unlock()
	if n == 0 {
		return
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	case <-ctx.Done():
	}
}
