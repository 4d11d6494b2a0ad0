package scaling

import (
	"fmt"
	"math"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/workers"
)

// Window applies the rule and remembers what was wanted: workers come at once and go
// when fewer were wanted for all of Settings.CoolDown. It is the stabilization window
// of the Kubernetes autoscaler, kept in memory: after a start workers may go a cool-down too
// early, which costs nothing but their start. It is for one goroutine at a time.
type Window struct {
	Settings Settings
	Slots    map[string]int // of a worker by pool, while there is none to tell

	past []past // newest last; Now falls from each to the next
}

type past struct {
	at  time.Time
	now int
}

// Decide adds an observation and says how many workers should run. Observations come
// in the order of their times.
func (w *Window) Decide(seen Observation) Decision {
	if seen.Workers == 0 {
		seen.Slots = w.Slots
	}
	now, cause := want(w.Settings, seen)
	for len(w.past) > 0 && w.past[len(w.past)-1].now <= now {
		w.past = w.past[:len(w.past)-1]
	}
	w.past = append(w.past, past{seen.At, now})
	for w.past[0].at.Before(seen.At.Add(-w.Settings.CoolDown)) {
		w.past = w.past[1:]
	}
	d := Decision{Wanted: w.past[0].now, Now: now, Why: cause, Seen: seen, Settings: w.Settings}
	if d.Wanted > now {
		d.Why = fmt.Sprintf("so many were needed %s ago, and workers stay for %s; %d would do now",
			seconds(seen.At.Sub(w.past[0].at)), seconds(w.Settings.CoolDown), now)
	}
	return d
}

const (
	aliveFor = 15 * time.Second // a heartbeat comes every 3 s

	// believe is how many items count as measured by Spec.Typical: the first item of a
	// queue, which may be an odd one, does not decide alone.
	believe = 5
)

// Each is how long an item of a queue takes, by what living workers have measured.
func Each(spec azq.Spec, found []workers.Worker) time.Duration {
	items, total := float64(believe), believe*spec.Typical.Seconds()
	for _, w := range found {
		for lane := range azq.DefaultLanes {
			count := w.Queues[azq.LaneName(spec.Base(), lane)]
			if count.Seconds > 0 {
				items += float64(count.Done)
				total += count.Seconds
			}
		}
	}
	return time.Duration(total / items * float64(time.Second))
}

// Fleet counts the workers that receive, and says how many slots one has of each pool: the
// mean.
func Fleet(at time.Time, found []workers.Worker) (n int, slots map[string]int) {
	slots = map[string]int{}
	for _, w := range found {
		if w.Draining || at.Sub(w.SeenAt) > aliveFor {
			continue
		}
		n++
		for pool, size := range w.Pools {
			slots[pool] += size
		}
	}
	for pool, sum := range slots {
		slots[pool] = int(math.Round(float64(sum) / float64(n)))
	}
	return n, slots
}
