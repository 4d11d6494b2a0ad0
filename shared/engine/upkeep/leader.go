// Package upkeep holds the duties that repair what crashes leave. One elected worker
// does them at a time:
//
//   - the reconciler sends what an outbox still promises and what was lost;
//   - the janitor removes blobs that no row names.
//
// A frozen process can cause two leaders at once. That does no harm, because both duties
// only do what is safe to repeat.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// leaseBlob is the blob in azq.ControlContainer whose lease makes a worker the leader.
const leaseBlob = "upkeep"

// leaseTime is the shortest that the service grants, so that a dead leader is replaced soon.
const leaseTime = 15 * time.Second

// Duty is what the leader does repeatedly. Each has a goroutine of its own, so that a long
// one does not delay the others. An item that fails is reported and stepped over, so that
// it does not keep a pass from the items behind it.
type Duty struct {
	Name  string
	Every time.Duration // from the end of a pass to the beginning of the next
	Do    func(ctx context.Context) (items int, err error)
}

// Leader runs duties while it holds the lease.
type Leader struct {
	Blobs  *blobstore.Store
	Duties []Duty
	Log    *slog.Logger
	// Passed, if set, is told of every pass. One that the end of the term cut short has not
	// failed.
	Passed func(duty string, items int, failed bool, took time.Duration)

	// Peers, if set, lists the living workers. A table costs a twelfth of what a lease does, so
	// a worker asks for the lease only when the register shows no leader that goes on.
	Peers func(context.Context) ([]workers.Worker, error)

	leading atomic.Bool
	sign    string    // what leaders last wrote into the register …
	signAt  time.Time // … and when it was seen first
}

// Leading reports whether this worker is the leader now.
func (l *Leader) Leading() bool { return l.leading.Load() }

// Run tries to become the leader until ctx ends. Errors of duties are logged, and the
// next pass tries again.
func (l *Leader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		led, peers := l.led(ctx)
		if !led {
			l.stand(ctx)
		}
		// Many look more seldom, so that together they do not look more often.
		_ = azstore.Sleep(ctx, leaseTime/3*time.Duration(max(1, peers/10)))
	}
}

func (l *Leader) stand(ctx context.Context) {
	asked := time.Now()
	lease, err := l.Blobs.AcquireLease(ctx, azq.ControlContainer, leaseBlob, leaseTime)
	switch {
	case err == nil:
		l.lead(ctx, lease, asked)
	case !errors.Is(err, blobstore.ErrLeaseTaken) && ctx.Err() == nil:
		l.Log.Warn("stand for election", "error", err)
	}
}

// led reports whether another worker leads, as far as the register tells: its row says so, and
// changed a short time ago by our clock. When in doubt the lease is asked.
func (l *Leader) led(ctx context.Context) (led bool, peers int) {
	if l.Peers == nil {
		return false, 0
	}
	found, err := l.Peers(ctx)
	sign := ""
	for _, w := range found {
		if w.Leader {
			sign += fmt.Sprintln(w.Name, w.SeenAt)
		}
	}
	if err != nil || sign == "" {
		return false, len(found)
	}
	if sign != l.sign {
		l.sign, l.signAt = sign, time.Now()
	}
	return time.Since(l.signAt) < leaseTime*2/3, len(found)
}

// leaseMargin is how long before the end of its lease a leader stops that could not renew it.
const leaseMargin = 3 * time.Second

// lead runs the duties until the lease is lost or ctx ends. held is since when the lease is
// held at least: what is asked of storage may take longer than the lease lasts, and then
// another worker leads.
func (l *Leader) lead(ctx context.Context, lease *blobstore.BlobLease, held time.Time) {
	l.leading.Store(true)
	l.Log.Info("elected for upkeep")
	term, stop := context.WithCancel(ctx)
	var duties sync.WaitGroup
	for _, d := range l.Duties {
		duties.Go(func() { repeat(term, d.Every, func() { l.do(term, d) }) })
	}
	for azstore.Sleep(term, leaseTime/3) == nil {
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
	l.leading.Store(false) // before a duty that is slow to stop: the register would keep others from the lease
	duties.Wait()
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := lease.Release(release); err != nil {
		l.Log.Debug("release the upkeep lease", "error", err) // it ends by itself
	}
}

func (l *Leader) do(ctx context.Context, d Duty) {
	begun := time.Now()
	items, err := d.Do(ctx)
	failed := err != nil && ctx.Err() == nil
	if failed {
		l.Log.Warn("upkeep", "duty", d.Name, "error", err)
	}
	if l.Passed != nil {
		l.Passed(d.Name, items, failed, time.Since(begun))
	}
}

// repeat does something until ctx ends, with a pause after each time.
func repeat(ctx context.Context, pause time.Duration, do func()) {
	for ctx.Err() == nil {
		do()
		_ = azstore.Sleep(ctx, pause)
	}
}

const maxErrors = 10

// firstErrors joins the first errors of a pass, and says how many more there are.
func firstErrors(errs []error) error {
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// Alive is how old the latest heartbeat of a living worker can be that works or leads: many
// may be lost.
const Alive = 15 * workers.BeatEvery

// Heartbeat keeps a worker's row in the register until ctx ends, then removes it.
func Heartbeat(ctx context.Context, register *workers.Register, now func() workers.Worker, log *slog.Logger) {
	var last workers.Worker // as the row has it
	repeat(ctx, workers.BeatEvery, func() {
		w := now()
		if w.Rests() && last.Rests() && time.Since(last.SeenAt) < workers.RestEvery {
			return
		}
		w.SeenAt = time.Now().UTC()
		if err := register.Beat(ctx, w); err != nil && ctx.Err() == nil {
			log.Warn("heartbeat", "error", err)
		}
		last = w
	})
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := register.Leave(leave, now().Name); err != nil {
		log.Debug("leave the register", "error", err)
	}
}
