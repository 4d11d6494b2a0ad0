package ffmpeg

import (
	"context"
	"sync"
	"time"
)

// Runs are the programs that run below one context. Fields are set before the first starts.
type Runs struct {
	// Nice, from 0 to 19, is added to the priority of programs as nice(1) does it, so that
	// they leave the processor to others when cores are short.
	Nice int
	// Moved is called, also by several goroutines at once, whenever the work of a program
	// has moved, and while a program waits for a processor.
	Moved func()

	mu    sync.Mutex
	usage Usage
}

// Usage is what the programs took that have ended, killed or not.
type Usage struct {
	Runs int // programs
	// CPU is processor time, in user and in system mode: of ffmpeg and ffprobe, and not of
	// this process, whose threads serve several items at once.
	CPU time.Duration
	// Memory is the most that one program had in memory at once, in bytes, or the copy of this
	// one as which it begins in the sandbox. 0 where the system does not say.
	Memory int64
	// Disk is the most that a program's directory held, in bytes, as often as it was looked
	// at: four times a second, and at the end of each run.
	Disk int64
}

type runsKey struct{}

// WithRuns returns a context, and the runs below it.
func WithRuns(ctx context.Context) (context.Context, *Runs) {
	r := RunsOf(context.Background())
	return context.WithValue(ctx, runsKey{}, r), r
}

// RunsOf returns the runs of [WithRuns], or others for a context without.
func RunsOf(ctx context.Context) *Runs {
	if r, found := ctx.Value(runsKey{}).(*Runs); found {
		return r
	}
	return &Runs{Moved: func() {}}
}

// Usage is the sum so far.
func (r *Runs) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usage
}

func (r *Runs) add(change func(*Usage)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.usage)
}
