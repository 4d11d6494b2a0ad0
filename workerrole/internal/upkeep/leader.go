package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/video"
)

// leaseBlob carries the lease in video.ControlContainer. Whoever holds it leads.
const leaseBlob = "upkeep"

// leaseTime is the shortest that the service grants: a dead leader is replaced
// within it (15 s to 60 s, or infinite).
const leaseTime = 15 * time.Second

// Duty is one thing that the leader does again and again.
type Duty struct {
	Name  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

// Leader runs duties while it holds the lease.
type Leader struct {
	Blobs  *blobstore.Store
	Duties []Duty
	Log    *slog.Logger

	leading atomic.Bool
}

// Leading reports whether this worker is the leader now.
func (l *Leader) Leading() bool { return l.leading.Load() }

// Run stands for election until ctx ends. Errors of duties are logged and the
// duty is tried again at its next turn.
func (l *Leader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		lease, err := l.Blobs.AcquireLease(ctx, video.ControlContainer, leaseBlob, leaseTime)
		switch {
		case errors.Is(err, blobstore.ErrLeaseTaken):
		case err != nil:
			if ctx.Err() == nil {
				l.Log.Warn("stand for election", "error", err)
			}
		default:
			l.lead(ctx, lease)
		}
		sleep(ctx, leaseTime/3)
	}
}

// lead runs the duties until the lease is lost or ctx ends.
func (l *Leader) lead(ctx context.Context, lease *blobstore.BlobLease) {
	l.leading.Store(true)
	defer l.leading.Store(false)
	l.Log.Info("elected for upkeep")
	term, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serve(term)
	}()
	for term.Err() == nil {
		sleep(term, leaseTime/3)
		if term.Err() != nil {
			break
		}
		if err := lease.Renew(term); err != nil {
			l.Log.Warn("lost the upkeep lease", "error", err)
			break
		}
	}
	stop()
	<-done
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := lease.Release(release); err != nil {
		l.Log.Debug("release the upkeep lease", "error", err) // it ends by itself
	}
}

// serve does each duty when it is due, one at a time.
func (l *Leader) serve(ctx context.Context) {
	due := make([]time.Time, len(l.Duties))
	for ctx.Err() == nil {
		next := time.Now().Add(time.Minute)
		for i, d := range l.Duties {
			if !time.Now().Before(due[i]) {
				if err := d.Do(ctx); err != nil && ctx.Err() == nil {
					l.Log.Warn("upkeep", "duty", d.Name, "error", err)
				}
				due[i] = time.Now().Add(d.Every)
			}
			if due[i].Before(next) {
				next = due[i]
			}
		}
		sleep(ctx, time.Until(next))
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
