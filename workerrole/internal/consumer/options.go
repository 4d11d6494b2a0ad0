package consumer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/cutroom/cutroom/shared/workqueue"
)

// Options are the consumer's settings. Zero values mean the defaults.
type Options struct {
	// Pools is the number of slots of each pool: how many items it works on at
	// once. A queue whose pool has no slots is not consumed by this worker.
	// Default: light 4, heavy one per core.
	Pools map[string]int

	// Worker names this process in histories and statistics. Default: host name.
	Worker string

	// StallAfter is how long a handler may make no progress. Default 60 s.
	StallAfter time.Duration

	// StopWithin is how long handlers have after the drain began before their
	// messages are given back whether they stopped or not. Default 500 ms.
	StopWithin time.Duration

	// SettleTimeout bounds the requests that settle a message. Default 15 s.
	SettleTimeout time.Duration

	// RefreshPolicy is the pause between two looks at each queue's length and
	// policy. Default 15 s.
	RefreshPolicy time.Duration

	// PutBack is how long an item that this worker does not understand is left
	// for others. Default 30 s.
	PutBack time.Duration

	// FirstRetry and MaxRetry bound the pause after a failed attempt, which
	// doubles with every failure. Defaults 2 s and 5 min.
	FirstRetry, MaxRetry time.Duration

	// MaxUnexplained is how many deliveries may end without a word before the
	// item is poison: it probably kills its workers. Default 20, because workers
	// are also killed for reasons that are not the item's.
	MaxUnexplained int

	// MaxKills is how many times the child processes of one item may be killed
	// from outside before the item is poison: it needs more memory than there
	// is. Default 8.
	MaxKills int

	// TroublePause and MaxTroublePause bound how long an item that met trouble
	// is hidden, and how long an open breaker waits before it tries again. Both
	// double while the trouble lasts. Defaults 1 s and 30 s.
	TroublePause, MaxTroublePause time.Duration

	// Probes say by dependency (an azstorage.Service, workqueue.Disk) how to ask
	// cheaply whether it works. A dependency without one is tried with one item.
	Probes map[string]func(context.Context) error

	// FixedLease switches renewal off: the 2008 paper's worker, which chooses a
	// timeout that covers the work (Q16a) and learns from late deletes when it
	// does not (Q16d). For comparison; renewal is better.
	FixedLease bool

	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Pools == nil {
		o.Pools = map[string]int{workqueue.Light: 4, workqueue.Heavy: runtime.NumCPU()}
	}
	if o.Worker == "" {
		o.Worker, _ = os.Hostname()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	def := func(d *time.Duration, unset time.Duration) {
		if *d <= 0 {
			*d = unset
		}
	}
	def(&o.StallAfter, 60*time.Second)
	def(&o.StopWithin, 500*time.Millisecond)
	def(&o.SettleTimeout, 15*time.Second)
	def(&o.RefreshPolicy, 15*time.Second)
	def(&o.PutBack, 30*time.Second)
	def(&o.FirstRetry, 2*time.Second)
	def(&o.MaxRetry, 5*time.Minute)
	def(&o.TroublePause, time.Second)
	def(&o.MaxTroublePause, 30*time.Second)
	if o.MaxKills <= 0 {
		o.MaxKills = 8
	}
	if o.MaxUnexplained <= 0 {
		o.MaxUnexplained = 20
	}
	return o
}

// retryDelay is the pause after the n-th failure: first, twice that, and so on.
func (o Options) retryDelay(failures int) time.Duration {
	return grow(o.FirstRetry, o.MaxRetry, failures)
}

// troubleDelay hides an item that was given back n times. The first pauses are
// short, so that a healthy worker takes it soon.
func (o Options) troubleDelay(n int) time.Duration { return grow(o.TroublePause, o.MaxTroublePause, n) }

// grow returns first, doubled n−1 times, at most longest, spread.
func grow(first, longest time.Duration, n int) time.Duration {
	d := first
	for i := 1; i < n && d < longest; i++ {
		d *= 2
	}
	return spread(min(d, longest))
}

// spread varies d by a fifth either way, so that workers do not march in step.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
