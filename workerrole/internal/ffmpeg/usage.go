package ffmpeg

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

// Usage sums up what the programs took that ran below one context. It is safe for
// concurrent use.
type Usage struct{ runs, cpu, memory, disk atomic.Int64 }

type usageKey struct{}

// WithUsage returns a context below which every run is added up, and the sum. A run
// counts when it has ended, killed or not.
func WithUsage(ctx context.Context) (context.Context, *Usage) {
	u := new(Usage)
	return context.WithValue(ctx, usageKey{}, u), u
}

// UsageOf is the sum of the context; without WithUsage one that stays empty.
func UsageOf(ctx context.Context) *Usage {
	if u, found := ctx.Value(usageKey{}).(*Usage); found {
		return u
	}
	return new(Usage)
}

// Runs is how many programs have ended.
func (u *Usage) Runs() int64 { return u.runs.Load() }

// CPU is the processor time so far, in user and in system mode: of ffmpeg and ffprobe,
// and not of this process, whose threads serve several items at once.
func (u *Usage) CPU() time.Duration { return time.Duration(u.cpu.Load()) }

// Memory is the most that one program had in memory at once, in bytes: 0 where the
// system does not say. A program in the sandbox begins as a copy of this one, so it is
// never less than that copy takes.
func (u *Usage) Memory() int64 { return u.memory.Load() }

// Disk is the most that a directory with what a program wrote held, in bytes, as often
// as it was looked at: four times a second, and at the end of each run.
func (u *Usage) Disk() int64 { return u.disk.Load() }

// spent adds what an ended child has used; nil when it did not start.
func spent(ctx context.Context, child *os.ProcessState) {
	if child == nil {
		return
	}
	u := UsageOf(ctx)
	u.runs.Add(1)
	u.cpu.Add(int64(child.UserTime() + child.SystemTime()))
	raise(&u.memory, peakMemory(child))
}

// raise makes n at least as large as value.
func raise(n *atomic.Int64, value int64) {
	for old := n.Load(); old < value && !n.CompareAndSwap(old, value); old = n.Load() {
	}
}
