package ffmpeg

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

// CPU sums up the processor time of the programs that ran below one context. It is safe
// for concurrent use.
type CPU struct{ used atomic.Int64 }

type cpuKey struct{}

// WithCPU returns a context below which the processor time of every run is added up, and
// the sum. A run counts when it has ended, killed or not.
func WithCPU(ctx context.Context) (context.Context, *CPU) {
	c := new(CPU)
	return context.WithValue(ctx, cpuKey{}, c), c
}

// Used is the time so far, in user and in system mode: of ffmpeg and ffprobe, and not of
// this process, whose threads serve several items at once.
func (c *CPU) Used() time.Duration { return time.Duration(c.used.Load()) }

// spent adds what an ended child has used; nil when it did not start.
func spent(ctx context.Context, child *os.ProcessState) {
	if c, found := ctx.Value(cpuKey{}).(*CPU); found && child != nil {
		c.used.Add(int64(child.UserTime() + child.SystemTime()))
	}
}
