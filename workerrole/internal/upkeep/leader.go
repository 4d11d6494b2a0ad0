package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// leaseBlob is the blob in workqueue.ControlContainer whose lease makes a worker the leader.
const leaseBlob = "upkeep"

// leaseTime is the shortest that the service grants (15 s to 60 s, or infinite), so that
// a dead leader is replaced soon.
const leaseTime = 15 * time.Second

// Duty is what the leader does repeatedly. Each has a goroutine of its own, so that a long
// one does not delay the others. An item that fails is reported and stepped over, so that
// it does not keep a pass from the items behind it.
type Duty struct {
	Name  string
	Every time.Duration // from the end of a pass to the beginning of the next
	Do    func(ctx context.Context) (Pass, error)
}

// Pass is the result of one pass of a duty.
type Pass struct {
	Items  int // that were checked
	Unsent int // found with a promise in the outbox that should have been sent by then
	Resent int // messages that were lost and were sent again
}

// Leader runs duties while it holds the lease.
type Leader struct {
	Blobs  *blobstore.Store
	Duties []Duty
	Log    *slog.Logger
	// Led, if set, is told when this worker begins to lead and when it has stopped.
	Led func(leads bool)
	// Passed, if set, is told of every pass. One that the end of the term cut short has not
	// failed.
	Passed func(duty string, pass Pass, failed bool, took time.Duration)

	leading atomic.Bool
}

// Leading reports whether this worker is the leader now.
func (l *Leader) Leading() bool { return l.leading.Load() }

func (l *Leader) setLeading(leads bool) {
	l.leading.Store(leads)
	if l.Led != nil {
		l.Led(leads)
	}
}

// Run tries to become the leader until ctx ends. Errors of duties are logged, and the
// next pass tries again.
func (l *Leader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		asked := time.Now()
		lease, err := l.Blobs.AcquireLease(ctx, workqueue.ControlContainer, leaseBlob, leaseTime)
		switch {
		case errors.Is(err, blobstore.ErrLeaseTaken):
		case err != nil:
			if ctx.Err() == nil {
				l.Log.Warn("stand for election", "error", err)
			}
		default:
			l.lead(ctx, lease, asked)
		}
		sleep(ctx, leaseTime/3)
	}
}

// leaseMargin is how long before the end of its lease a leader stops that could not renew it.
const leaseMargin = 3 * time.Second

// lead runs the duties until the lease is lost or ctx ends. held is since when the lease is
// held at least: what is asked of storage may take longer than the lease lasts, and then
// another worker leads.
func (l *Leader) lead(ctx context.Context, lease *blobstore.BlobLease, held time.Time) {
	l.setLeading(true)
	defer l.setLeading(false)
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
		asked := time.Now()
		renewing, cancel := context.WithDeadline(term, held.Add(leaseTime-leaseMargin))
		err := lease.Renew(renewing)
		cancel()
		if err != nil {
			l.Log.Warn("lost the upkeep lease", "error", err)
			break
		}
		held = asked
	}
	stop()
	<-done
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := lease.Release(release); err != nil {
		l.Log.Debug("release the upkeep lease", "error", err) // it ends by itself
	}
}

// serve runs every duty when it is due. It returns when all have stopped after ctx ended.
func (l *Leader) serve(ctx context.Context) {
	var duties sync.WaitGroup
	for _, d := range l.Duties {
		duties.Go(func() {
			for ctx.Err() == nil {
				l.do(ctx, d)
				sleep(ctx, d.Every)
			}
		})
	}
	duties.Wait()
}

func (l *Leader) do(ctx context.Context, d Duty) {
	begun := time.Now()
	pass, err := d.Do(ctx)
	failed := err != nil && ctx.Err() == nil
	if failed {
		l.Log.Warn("upkeep", "duty", d.Name, "error", err)
	}
	if l.Passed != nil {
		l.Passed(d.Name, pass, failed, time.Since(begun))
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

// failures are the errors of a pass with its items. Only the first ones are told.
type failures struct {
	first []error
	count int
}

const maxErrors = 10

func (f *failures) add(err error) {
	if f.count++; f.count <= maxErrors {
		f.first = append(f.first, err)
	}
}

func (f *failures) err() error {
	err := errors.Join(f.first...)
	if f.count > maxErrors {
		err = fmt.Errorf("%w\nand %d more", err, f.count-maxErrors)
	}
	return err
}
