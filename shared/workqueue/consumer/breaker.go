package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// The states of a breaker.
const (
	BreakerClosed   = "closed"    // receiving
	BreakerHalfOpen = "half-open" // receiving one item at a time, to see how it fares
	BreakerOpen     = "open"      // not receiving
)

const (
	opensAfter   = 3               // troubles in a row
	forgetAfter  = 5 * time.Minute // trouble older than this does not count
	probeTimeout = 5 * time.Second
)

// breakers are the circuit breakers of one worker, one for each dependency: storage's
// three services, the disk, memory, the way to the sources. While one is open the
// worker receives nothing, because most items would meet the same trouble. Items in
// progress go on.
//
//	closed ─ 3 troubles in a row ─→ open ─ pause ─→ probe ─ well ─→ closed
//	                                 ↑                │ no probe, or it was well before
//	                                 └── trouble ── half-open ─ an item is done ─→ closed
//
// The pause doubles while the trouble lasts. In a row means that no item of a step that
// met the trouble was done in between. Items of other steps may not need the dependency.
// (Why not a library: docs/decisions/0024-trouble-costs-nothing.md.)
type breakers struct {
	pause, maxPause time.Duration
	probes          map[string]func(context.Context) error
	log             *slog.Logger

	mu      sync.Mutex
	all     map[string]*breaker
	changed chan struct{}    // closed at every change, and replaced
	trying  bool             // the one item of the half-open state is asked for or in progress
	trial   *workqueue.Lease // that item, once it is received
}

// breaker watches one dependency. All fields are guarded by breakers.mu.
type breaker struct {
	state    string
	troubles int64
	row      int             // troubles in a row
	steps    map[string]bool // steps that met them
	latest   time.Time
	reason   string
	since    time.Time // of state open or half-open
	pause    time.Duration
	retryAt  time.Time // when open
	misled   bool      // the probe succeeded and the work did not: only an item can close the breaker
}

func newBreakers(o Options, log *slog.Logger) *breakers {
	b := &breakers{
		pause: o.TroublePause, maxPause: o.MaxTroublePause, probes: o.Probes, log: log,
		all: map[string]*breaker{}, changed: make(chan struct{}),
	}
	for dependency := range o.Probes {
		b.of(dependency)
	}
	return b
}

// failed notes that a step met trouble with a dependency.
func (b *breakers) failed(dependency, step string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(dependency)
	if time.Since(k.latest) > forgetAfter {
		k.forget()
	}
	k.troubles++
	k.row++
	k.steps[step] = true
	k.latest, k.reason = time.Now(), azstorage.Brief(err)
	if k.state == BreakerHalfOpen || k.state == BreakerClosed && k.row >= opensAfter {
		k.misled = k.misled || k.state == BreakerClosed && k.pause > 0
		b.open(dependency, k)
	}
}

// succeeded notes that an item of a step is done, or that a receive worked. A receive
// counts only for trouble that was met when receiving.
func (b *breakers) succeeded(step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for dependency, k := range b.all {
		if k.state == BreakerHalfOpen && (step != receiving || k.steps[step]) {
			b.close(dependency, k)
		}
		if k.state == BreakerClosed && k.steps[step] {
			k.forget()
		}
	}
}

// wait returns when the worker may receive, or with an error when ctx ends.
func (b *breakers) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		limit, changed := b.limit(), b.changed
		b.mu.Unlock()
		if limit > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// admit returns how many of the wanted items may be received, and a function that
// must be called with what was received.
func (b *breakers) admit(want int) (n int, came func([]*workqueue.Lease)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(want, b.limit())
	if n == 0 || !b.halfOpen() {
		return n, func([]*workqueue.Lease) {}
	}
	b.trying = true
	return n, func(leases []*workqueue.Lease) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(leases) == 0 {
			b.endTrial()
			return
		}
		b.trial = leases[0]
	}
}

// ended notes that a received item is settled.
func (b *breakers) ended(lease *workqueue.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trial == lease {
		b.endTrial()
	}
}

// run probes dependencies whose breaker is open until ctx ends.
func (b *breakers) run(ctx context.Context) {
	for {
		b.mu.Lock()
		next, changed := time.Now().Add(time.Hour), b.changed
		var due []string
		for dependency, k := range b.all {
			switch {
			case k.state != BreakerOpen:
			case time.Now().Before(k.retryAt):
				next = earliest(next, k.retryAt)
			default:
				due = append(due, dependency)
			}
		}
		b.mu.Unlock()
		for _, dependency := range due {
			b.retry(ctx, dependency)
		}
		if len(due) > 0 {
			continue
		}
		select {
		case <-time.After(time.Until(next)):
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// retry asks an open breaker's probe whether the trouble is over.
func (b *breakers) retry(ctx context.Context, dependency string) {
	err := b.probe(ctx, dependency)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(dependency)
	switch {
	case err != nil:
		k.latest, k.reason = time.Now(), azstorage.Brief(err)
		b.open(dependency, k)
	case b.probes[dependency] == nil || k.misled:
		k.state = BreakerHalfOpen
		b.announce()
	default:
		b.close(dependency, k)
	}
}

func (b *breakers) probe(ctx context.Context, dependency string) error {
	probe := b.probes[dependency]
	if probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return recovered(func() error { return probe(ctx) })
}

// check probes all dependencies and returns the first that is in trouble, if any.
func (b *breakers) check(ctx context.Context) (dependency string, err error) {
	names := slices.Sorted(maps.Keys(b.probes))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = b.probe(ctx, name) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return names[i], err
		}
	}
	return "", nil
}

// of returns the breaker of a dependency. The caller holds mu, as for all below.
func (b *breakers) of(dependency string) *breaker {
	k := b.all[dependency]
	if k == nil {
		k = &breaker{state: BreakerClosed, steps: map[string]bool{}}
		b.all[dependency] = k
	}
	return k
}

func (b *breakers) open(dependency string, k *breaker) {
	if k.state == BreakerClosed {
		k.since = time.Now()
		b.log.Warn("trouble: no more items are received", "dependency", dependency, "error", k.reason)
	}
	k.state = BreakerOpen
	k.pause = min(max(2*k.pause, b.pause), b.maxPause)
	k.retryAt = time.Now().Add(spread(k.pause))
	b.announce()
}

// close lets items be received again. Until an item of a step that met the trouble is
// done, one more trouble opens the breaker at once and for longer.
func (b *breakers) close(dependency string, k *breaker) {
	k.state, k.row = BreakerClosed, opensAfter-1
	b.log.Info("trouble is over: items are received", "dependency", dependency, "lasted", time.Since(k.since).Round(time.Millisecond))
	b.announce()
}

// forget removes what is known of earlier trouble.
func (k *breaker) forget() {
	k.row, k.pause, k.misled = 0, 0, false
	clear(k.steps)
}

// limit is how many items may be received at once.
func (b *breakers) limit() int {
	switch {
	case b.has(BreakerOpen), b.trying && b.halfOpen():
		return 0
	case b.halfOpen():
		return 1
	}
	return workqueue.MaxBatch
}

func (b *breakers) halfOpen() bool { return b.has(BreakerHalfOpen) }

func (b *breakers) has(state string) bool {
	for _, k := range b.all {
		if k.state == state {
			return true
		}
	}
	return false
}

func (b *breakers) endTrial() {
	b.trying, b.trial = false, nil
	b.announce()
}

func (b *breakers) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// BreakerStats is the state of one dependency's circuit breaker.
type BreakerStats struct {
	Dependency string    `json:"dependency"`
	State      string    `json:"state"`
	Troubles   int64     `json:"troubles"` // since the start of the process
	Since      time.Time `json:"since"`    // when receiving stopped; zero when closed
	Reason     string    `json:"reason"`   // of the latest trouble; empty when closed
}

func (b *breakers) stats() []BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []BreakerStats
	for _, dependency := range slices.Sorted(maps.Keys(b.all)) {
		k := b.all[dependency]
		s := BreakerStats{Dependency: dependency, State: k.state, Troubles: k.troubles}
		if k.state != BreakerClosed {
			s.Since, s.Reason = k.since, k.reason
		}
		list = append(list, s)
	}
	return list
}

// TroubleError says why a worker receives nothing.
type TroubleError struct{ BreakerStats }

func (e *TroubleError) Error() string {
	return fmt.Sprintf("trouble with %s since %s: %s", e.Dependency, e.Since.UTC().Format(time.RFC3339), e.Reason)
}

// Ready returns a [TroubleError] while a breaker is open.
func (c *Consumer) Ready() error {
	for _, s := range c.breakers.stats() {
		if s.State == BreakerOpen {
			return &TroubleError{s}
		}
	}
	return nil
}
