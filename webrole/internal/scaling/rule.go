// Package scaling says how many workers the queues want (paper rows Q4 and Q18). It
// is the one place that does: the API, the metrics, the board, and whatever starts and
// stops workers read its answer.
//
// docs/patterns/scaling-by-queue-length.md tells the reasons.
package scaling

import (
	"fmt"
	"math"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// Settings are the targets and the bounds.
type Settings struct {
	Begin    time.Duration // urgent work, for which a viewer waits, is begun within this
	Bulk     time.Duration // everything is done within this
	Floor    int           // the fewest workers, at least 1: see decision 0033
	Ceiling  int           // the most workers
	CoolDown time.Duration // how long a number of workers stays wanted after it was
}

// maxFleet bounds the number of workers.
const maxFleet = 1000

// Read reads WEBROLE_SCALE_*.
func Read(env *settings.Reader) Settings {
	s := Settings{
		Begin:    env.Duration("WEBROLE_SCALE_BEGIN", 10*time.Second, time.Second, 0),
		Bulk:     env.Duration("WEBROLE_SCALE_BULK", 30*time.Minute, time.Second, 0),
		Floor:    env.Int("WEBROLE_SCALE_FLOOR", 1, 1, maxFleet),
		Ceiling:  env.Int("WEBROLE_SCALE_CEILING", 10, 1, maxFleet),
		CoolDown: env.Duration("WEBROLE_SCALE_COOL_DOWN", 5*time.Minute, 0, 24*time.Hour),
	}
	if s.Ceiling < s.Floor {
		env.Bad("WEBROLE_SCALE_CEILING", fmt.Errorf("%d is less than WEBROLE_SCALE_FLOOR, %d", s.Ceiling, s.Floor))
	}
	return s
}

// work is for how many seconds one slot would be busy with the queue. An item that is hidden
// is on average half done.
func work(q api.ScaleQueue) float64 {
	return (float64(q.Visible) + float64(q.Hidden)/2) * q.SecondsEach
}

// Observation is all queues and workers at one moment.
type Observation struct {
	At      time.Time
	Queues  []api.ScaleQueue
	Workers int            // that live and are not draining
	Slots   map[string]int // of one worker, by pool
}

// patience is the share of a target that is left at least, however old the oldest
// message is: one that is stuck must not ask for a worker per second of its age.
const patience = 4

// Want is the rule, and why it says so. For each pool it takes the largest of three numbers of workers:
//
//   - that which begins all urgent work within Settings.Begin, less its oldest message's age;
//   - that which does all work within Settings.Bulk, less the age of the oldest;
//   - that whose slots hold what is in progress, but no more than there are: a busy
//     worker is not stopped while it is needed.
//
// More slots than messages are never wanted. What wants most decides.
func Want(s Settings, seen Observation) (wanted int, cause string) {
	wanted, cause = s.Floor, fmt.Sprintf("there is little work: the floor is %d", s.Floor)
	for _, q := range seen.Queues {
		if n, reason := wantPool(s, seen, q.Pool); n > wanted {
			wanted, cause = n, reason
		}
	}
	if wanted > s.Ceiling {
		return s.Ceiling, fmt.Sprintf("the ceiling is %d; without it %d: %s", s.Ceiling, wanted, cause)
	}
	return wanted, cause
}

type load struct {
	messages, hidden int64
	work, oldest     float64 // seconds
}

func (l *load) add(q api.ScaleQueue) {
	l.messages += q.Visible + q.Hidden
	l.hidden += q.Hidden
	l.work += work(q)
	if q.Visible > 0 {
		l.oldest = max(l.oldest, q.OldestSeconds)
	}
}

func wantPool(s Settings, seen Observation, pool string) (int, string) {
	var all, urgent load
	for _, q := range seen.Queues {
		if q.Pool != pool || q.Paused {
			continue
		}
		all.add(q)
		if q.Urgent {
			urgent.add(q)
		}
	}
	slots := int64(max(seen.Slots[pool], 1))
	within := func(l load, target time.Duration) int64 {
		left := max(target.Seconds()-l.oldest, target.Seconds()/patience, 1)
		return int64(math.Ceil(l.work / left / float64(slots)))
	}
	tell := func(l load, goal string, target time.Duration) string {
		return fmt.Sprintf("%.0f s work of %s is to be %s, its oldest message is %.0f s old, and a worker has %d slots for it",
			l.work, pool, fmt.Sprintf(goal, target), l.oldest, slots)
	}
	n, cause := within(urgent, s.Begin), tell(urgent, "begun within %v", s.Begin)
	if bulk := within(all, s.Bulk); bulk > n {
		n, cause = bulk, tell(all, "done within %v", s.Bulk)
	}
	if inHand := min(ceil(all.hidden, slots), int64(seen.Workers)); inHand > n {
		n, cause = inHand, fmt.Sprintf("%d items of %s are in progress, and a worker has %d slots for them", all.hidden, pool, slots)
	}
	if most := ceil(all.messages, slots); most < n {
		n, cause = most, fmt.Sprintf("there are only %d messages of %s, and a worker has %d slots for them", all.messages, pool, slots)
	}
	return int(min(n, 1<<20)), cause
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

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
func (w *Window) Decide(seen Observation) api.Scale {
	if seen.Workers == 0 {
		seen.Slots = w.Slots
	}
	now, cause := Want(w.Settings, seen)
	for len(w.past) > 0 && w.past[len(w.past)-1].now <= now {
		w.past = w.past[:len(w.past)-1]
	}
	w.past = append(w.past, past{seen.At, now})
	for w.past[0].at.Before(seen.At.Add(-w.Settings.CoolDown)) {
		w.past = w.past[1:]
	}
	d := api.Scale{
		At: seen.At.UTC(), Wanted: w.past[0].now, Now: now, Why: cause, Workers: seen.Workers, Queues: seen.Queues,
		Floor: w.Settings.Floor, Ceiling: w.Settings.Ceiling, BeginSeconds: w.Settings.Begin.Seconds(),
		BulkSeconds: w.Settings.Bulk.Seconds(), CoolDownSeconds: w.Settings.CoolDown.Seconds(),
	}
	for i, q := range d.Queues {
		d.Queues[i].WorkSeconds = work(q)
	}
	if d.Wanted > now {
		d.Why = fmt.Sprintf("so many were needed %.0f s ago, and workers stay for %.0f s; %d would do now",
			seen.At.Sub(w.past[0].at).Seconds(), d.CoolDownSeconds, now)
	}
	return d
}

const (
	deadAfter = 12 * time.Second // a heartbeat is late

	// believe is how many items count as measured by Spec.Typical: the first item of a
	// queue, which may be an odd one, does not decide alone.
	believe = 5
)

// SecondsEach is how long an item of a queue takes, by what living workers have measured.
func SecondsEach(spec azq.Spec, found []workers.Worker) float64 {
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
	return total / items
}

// Fleet counts the workers that receive, and says how many slots one has of each pool: the
// mean.
func Fleet(at time.Time, found []workers.Worker) (n int, slots map[string]int) {
	slots = map[string]int{}
	for _, w := range found {
		if w.Draining || w.Overdue(at) > deadAfter {
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
