package ffmpeg

import (
	"context"
	"os"
	"sync"
	"time"
)

// Usage is what the programs took that ran below one context and have ended, killed or not.
type Usage struct {
	Runs int // programs
	// CPU is processor time, in user and in system mode: of ffmpeg and ffprobe, and not of
	// this process, whose threads serve several items at once.
	CPU time.Duration
	// Memory is the most that one program had in memory at once, in bytes: 0 where the
	// system does not say. A program in the sandbox begins as a copy of this one, so it is
	// never less than that copy takes.
	Memory int64
	// Disk is the most that a directory with what a program wrote held, in bytes, as often
	// as it was looked at: four times a second, and at the end of each run.
	Disk int64
}

type usageKey struct{}

type meter struct {
	sync.Mutex
	Usage
}

// WithUsage returns a context below which every run is added up, and the sum so far.
func WithUsage(ctx context.Context) (context.Context, func() Usage) {
	m := new(meter)
	return context.WithValue(ctx, usageKey{}, m), func() Usage {
		m.Lock()
		defer m.Unlock()
		return m.Usage
	}
}

// addUsage changes the sum of a context, if it has one.
func addUsage(ctx context.Context, add func(*Usage)) {
	if m, found := ctx.Value(usageKey{}).(*meter); found {
		m.Lock()
		defer m.Unlock()
		add(&m.Usage)
	}
}

// spent adds what an ended child has used.
func spent(ctx context.Context, child *os.ProcessState) {
	addUsage(ctx, func(u *Usage) {
		u.Runs++
		u.CPU += child.UserTime() + child.SystemTime()
		u.Memory = max(u.Memory, peakMemory(child))
	})
}

type niceKey struct{}

// WithNice returns a context whose programs leave the processor to others when cores are
// short: by, from 0 to 19, is added to their priority as nice(1) does it. On a machine with
// nothing else to do it costs nothing.
func WithNice(ctx context.Context, by int) context.Context {
	return context.WithValue(ctx, niceKey{}, by)
}

// NiceOf returns the number of [WithNice], 0 without it.
func NiceOf(ctx context.Context) int {
	by, _ := ctx.Value(niceKey{}).(int)
	return by
}
