package scaling

import (
	"fmt"
	"sync"
	"time"
)

// Window applies the rule and remembers what was wanted: workers come at once and go
// when fewer were wanted for all of Settings.CoolDown. It is the stabilization window
// of the Kubernetes autoscaler. It is safe for concurrent use.
//
// It is kept in memory. A web role that starts again forgets it, and workers may go a
// cool-down too early, which costs nothing but their start.
type Window struct {
	settings Settings

	mu   sync.Mutex
	past []past // newest last; Now falls from each to the next
}

type past struct {
	at  time.Time
	now int
}

// NewWindow returns a window that has seen nothing.
func NewWindow(s Settings) *Window { return &Window{settings: s} }

// Settings returns the targets and the bounds.
func (w *Window) Settings() Settings { return w.settings }

// Decide adds an observation and says how many workers should run. Observations come
// in the order of their times.
func (w *Window) Decide(seen Observation) Decision {
	now, why := want(w.settings, seen)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.past) > 0 && w.past[len(w.past)-1].now <= now {
		w.past = w.past[:len(w.past)-1]
	}
	w.past = append(w.past, past{seen.At, now})
	for w.past[0].at.Before(seen.At.Add(-w.settings.CoolDown)) {
		w.past = w.past[1:]
	}
	d := Decision{Wanted: w.past[0].now, Now: now, Why: why, Seen: seen}
	if d.Wanted > now {
		d.Why = fmt.Sprintf("so many were needed %s ago, and workers stay for %s; %d would do now", seconds(seen.At.Sub(w.past[0].at)), seconds(w.settings.CoolDown), now)
	}
	return d
}
