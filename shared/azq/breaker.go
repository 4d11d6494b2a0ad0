package azq

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// The states of a breaker.
const (
	BreakerClosed   = "closed"    // receiving
	BreakerHalfOpen = "half-open" // of the kinds that met the trouble, one item at a time
	BreakerOpen     = "open"      // not receiving
)

const probeTimeout = 15 * time.Second // a machine may be slow without being sick

// breakers are the circuit breakers of one worker, one for each dependency. While one is open
// that has a probe, the worker receives nothing, because most items would meet the same
// trouble. One without a probe holds up the kinds that met the trouble. Items in progress go on.
//
//	closed ─ 3 troubles in a row ─→ open ─ pause ─→ probe ─ well ─→ closed
//	                                 ↑                │ no probe, or it was well before
//	                                 └── trouble ── half-open ─ an item is done ─→ closed
//
// In a row means that no item of a kind that met the trouble was done in between.
type breakers struct {
	options Options
	log     *slog.Logger
	tell    func(Event)

	mu     sync.Mutex
	all    map[string]*breaker
	trying sync.Mutex // held while the one item of the half-open state is asked for or in progress

	ctx     context.Context // of Run, before which nothing is received
	retries sync.WaitGroup
}

// breaker watches one dependency. All fields are guarded by breakers.mu.
type breaker struct {
	BreakerStats
	row    int             // troubles in a row
	steps  map[string]bool // kinds that met them
	pause  time.Duration   // the latest between opening and retry
	misled bool            // the probe succeeded and the work did not: only an item can close the breaker
}

// failed notes that a kind met trouble with a dependency.
func (b *breakers) failed(dependency, step string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.find(dependency)
	k.Failures++
	k.row++
	k.steps[step] = true
	if k.State == BreakerHalfOpen || k.State == BreakerClosed && k.row >= b.options.OpensAfter {
		k.misled = k.misled || k.State == BreakerClosed && k.pause > 0
		b.open(k, err)
	}
}

// succeeded notes that an item of a kind is done, or that a receive worked.
func (b *breakers) succeeded(step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.all {
		if k.State == BreakerOpen || !k.steps[step] {
			continue
		}
		if k.State == BreakerHalfOpen {
			b.close(k)
		}
		k.row, k.pause, k.misled = 0, 0, false
		clear(k.steps)
	}
}

// admit returns how many of the wanted items of these kinds may be received: one if with that a
// half-open breaker finds out whether its dependency works again. settled is to be called when
// they are settled, or none came.
func (b *breakers) admit(want int, steps []string) (n int, settled func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	halfOpen := false
	for dependency, k := range b.all {
		met := k.steps[receiving] || slices.ContainsFunc(steps, func(s string) bool { return k.steps[s] })
		if k.State == BreakerOpen && (met || b.options.Probes[dependency] != nil) {
			return 0, func() {}
		}
		halfOpen = halfOpen || met && k.State == BreakerHalfOpen
	}
	switch {
	case !halfOpen:
		return want, func() {}
	case b.trying.TryLock():
		return 1, sync.OnceFunc(b.trying.Unlock)
	}
	return 0, func() {}
}

// retry asks an open breaker's probe whether the trouble is over.
func (b *breakers) retry(k *breaker) {
	_, err := b.check(b.ctx, []string{k.Dependency})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.open(k, err)
	case b.options.Probes[k.Dependency] == nil || k.misled:
		k.State = BreakerHalfOpen
	default:
		b.close(k)
	}
}

// check probes dependencies and returns the first that is in trouble, if any.
func (b *breakers) check(ctx context.Context, dependencies []string) (dependency string, err error) {
	for _, dependency = range dependencies {
		if probe := b.options.Probes[dependency]; probe != nil && err == nil {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			err = callHook(ctx, probe)
			cancel()
		}
		if err != nil {
			return dependency, err
		}
	}
	return "", nil
}

// find returns the breaker of a dependency. The caller holds mu, as for all below.
func (b *breakers) find(dependency string) *breaker {
	k := b.all[dependency]
	if k == nil {
		k = &breaker{BreakerStats: BreakerStats{Dependency: dependency, State: BreakerClosed}, steps: map[string]bool{}}
		b.all[dependency] = k
	}
	return k
}

// open stops the receiving until the retry after a pause.
func (b *breakers) open(k *breaker, err error) {
	k.Reason = azstore.Brief(err)
	if k.State == BreakerClosed {
		k.Since = time.Now()
		b.log.Warn("trouble: no more items are received", "dependency", k.Dependency, "error", k.Reason)
		b.tell(Event{Type: EventBreakerOpen, Dependency: k.Dependency, Err: err})
	}
	k.State = BreakerOpen
	k.pause = min(max(2*k.pause, b.options.DependencyPause), b.options.MaxDependencyPause)
	pause := spread(k.pause)
	b.retries.Go(func() {
		if azstore.Sleep(b.ctx, pause) == nil {
			b.retry(k)
		}
	})
}

// close lets items be received again. Until an item of a kind that met the trouble is
// done, one more trouble opens the breaker at once and for longer.
func (b *breakers) close(k *breaker) {
	k.State, k.row = BreakerClosed, b.options.OpensAfter-1
	b.log.Info("trouble is over: items are received", "dependency", k.Dependency, "lasted", time.Since(k.Since).Round(time.Millisecond))
	k.Since, k.Reason = time.Time{}, ""
}

// BreakerStats is the state of one dependency's circuit breaker.
type BreakerStats struct {
	Dependency string    `json:"dependency"`
	State      string    `json:"state"`
	Failures   int64     `json:"troubles"` // since the start of the process
	Since      time.Time `json:"since"`    // when receiving stopped; zero when closed
	Reason     string    `json:"reason"`   // of the latest trouble; empty when closed
}

func (b *breakers) stats() []BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []BreakerStats
	for _, dependency := range slices.Sorted(maps.Keys(b.all)) {
		list = append(list, b.all[dependency].BreakerStats)
	}
	return list
}
