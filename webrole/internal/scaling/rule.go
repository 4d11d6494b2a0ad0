// Package scaling says how many workers the queues want (paper rows Q4 and Q18). It
// is the one place that does: the API, the metrics, the board, and whatever starts and
// stops workers read its answer.
//
// docs/patterns/scaling-by-queue-length.md tells the reasons. Next: window.go.
package scaling

import (
	"fmt"
	"slices"
	"time"
)

// Settings are the targets and the bounds.
type Settings struct {
	Begin    time.Duration // urgent work, for which a viewer waits, is begun within this
	Bulk     time.Duration // everything is done within this
	Floor    int           // the fewest workers, at least 1: see decision 0033
	Ceiling  int           // the most workers
	CoolDown time.Duration // how long a number of workers stays wanted after it was
}

// Queue is what was seen of one queue, all lanes together.
type Queue struct {
	Name            string
	Pool            string // whose slots its items take
	Urgent          bool
	Paused          bool  // no worker receives from it, so none is needed
	Visible, Hidden int64 // messages
	Oldest          time.Duration
	Each            time.Duration // how long one item takes a slot
}

// Work is how long one slot would be busy with the queue. An item that is hidden is on
// average half done.
func (q Queue) Work() time.Duration {
	return time.Duration(q.Visible)*q.Each + time.Duration(q.Hidden)*q.Each/2
}

// Observation is all queues and workers at one moment.
type Observation struct {
	At      time.Time
	Queues  []Queue
	Workers int            // that live and are not draining
	Slots   map[string]int // of one worker, by pool
}

// Decision is how many workers should run.
type Decision struct {
	Wanted   int    // in the end
	Now      int    // by what is in the queues at this moment, without the cool-down
	Why      string // for people
	Seen     Observation
	Settings Settings
}

// patience is the share of a target that is left at least, however old the oldest
// message is: one that is stuck must not ask for a worker per second of its age.
const patience = 4

// want is the rule. For each pool it takes the largest of three numbers of workers:
//
//   - that which begins all urgent work within Settings.Begin, less its oldest message's age;
//   - that which does all work within Settings.Bulk, less the age of the oldest;
//   - that whose slots hold what is in progress, but no more than there are: a busy
//     worker is not stopped while it is needed.
//
// More slots than messages are never wanted. What wants most decides.
func want(s Settings, seen Observation) (wanted int, cause string) {
	wanted, cause = s.Floor, fmt.Sprintf("there is little work: the floor is %s", count(s.Floor))
	for _, pool := range pools(seen.Queues) {
		if n, reason := wantPool(s, seen, pool); n > wanted {
			wanted, cause = n, reason
		}
	}
	if wanted > s.Ceiling {
		return s.Ceiling, fmt.Sprintf("the ceiling is %s; without it %d: %s", count(s.Ceiling), wanted, cause)
	}
	return wanted, cause
}

// load is the work of some queues of a pool.
type load struct {
	messages, hidden int64
	work             time.Duration
	oldest           time.Duration
}

func (l *load) add(q Queue) {
	l.messages += q.Visible + q.Hidden
	l.hidden += q.Hidden
	l.work += q.Work()
	if q.Visible > 0 {
		l.oldest = max(l.oldest, q.Oldest)
	}
}

func wantPool(s Settings, seen Observation, pool string) (int, string) {
	queues := slices.DeleteFunc(slices.Clone(seen.Queues), func(q Queue) bool { return q.Pool != pool || q.Paused })
	var all, urgent load
	for _, q := range queues {
		all.add(q)
		if q.Urgent {
			urgent.add(q)
		}
	}
	slots := int64(max(seen.Slots[pool], 1))
	within := func(l load, target time.Duration) int64 {
		left := max(target-l.oldest, target/patience, time.Second)
		return ceil(int64(l.work), slots*int64(left))
	}
	tell := func(l load, goal string, target time.Duration) string {
		return fmt.Sprintf("%s work of %s is to be %s, its oldest message is %s old, and a worker has %d slots for it",
			seconds(l.work), pool, fmt.Sprintf(goal, target), seconds(l.oldest), slots)
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

func pools(queues []Queue) (names []string) {
	for _, q := range queues {
		if !slices.Contains(names, q.Pool) {
			names = append(names, q.Pool)
		}
	}
	return names
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

func count(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
