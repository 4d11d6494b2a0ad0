package scaling

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
)

const (
	aliveFor = 15 * time.Second // a heartbeat comes every 3 s

	// believe is how many items count as measured by Spec.Typical: the first item of a
	// queue, which may be an odd one, does not decide alone.
	believe = 5
)

// Source knows what the rule needs beside what was seen: the queues as they are declared
// and what was wanted before. It is safe for concurrent use.
type Source struct {
	queues *workqueue.Queues
	slots  map[string]int // of a worker, while there is none to tell
	window *Window

	mu     sync.Mutex
	latest Decision
}

// NewSource returns a source. slots is what a worker has of each pool; what living
// workers say goes before it.
func NewSource(queues *workqueue.Queues, slots map[string]int, s Settings) *Source {
	return &Source{queues: queues, slots: slots, window: NewWindow(s)}
}

// Settings returns the targets and the bounds.
func (s *Source) Settings() Settings { return s.window.Settings() }

// Lane is what was seen of one storage queue.
type Lane struct {
	Name            string // with lane
	Length, Visible int64
	Oldest          time.Time // when the oldest visible message was sent; zero without one
}

// Decide applies the rule to what the caller has read. Lanes of queues that are not
// declared are ignored.
func (s *Source) Decide(at time.Time, lanes []Lane, found []workers.Worker) Decision {
	seen := Observation{At: at}
	seen.Workers, seen.Slots = s.fleet(at, found)
	place := map[string]int{} // by base name
	for _, spec := range s.queues.Specs() {
		i, known := place[spec.Base()]
		if !known {
			i = len(seen.Queues)
			place[spec.Base()] = i
			seen.Queues = append(seen.Queues, Queue{
				Name: spec.Base(), Pool: spec.Pool, Urgent: spec.Urgent,
				Paused: s.queues.Queue(spec.Name).Policy().Paused, Each: s.each(spec, found),
			})
		}
		at := slices.IndexFunc(lanes, func(l Lane) bool { return l.Name == spec.Name })
		if at < 0 {
			continue
		}
		lane, q := lanes[at], &seen.Queues[i]
		q.Visible += lane.Visible
		q.Hidden += max(lane.Length-lane.Visible, 0)
		if !lane.Oldest.IsZero() {
			q.Oldest = max(q.Oldest, seen.At.Sub(lane.Oldest))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.Seen.At.After(at) { // another reading was quicker
		return s.latest
	}
	s.latest = s.window.Decide(seen)
	return s.latest
}

// each is how long an item of a queue takes, by what living workers have measured.
func (s *Source) each(spec workqueue.Spec, found []workers.Worker) time.Duration {
	items, total := float64(believe), believe*spec.Typical.Seconds()
	for _, w := range found {
		for lane := range workqueue.Lanes {
			count := w.Queues[workqueue.LaneName(spec.Base(), lane)]
			if count.Seconds > 0 {
				items += float64(count.Done)
				total += count.Seconds
			}
			if !spec.Laned {
				break
			}
		}
	}
	return time.Duration(total / items * float64(time.Second))
}

// fleet counts the workers that receive, and says how many slots one has: the mean.
func (s *Source) fleet(at time.Time, found []workers.Worker) (n int, slots map[string]int) {
	sum := map[string]int{}
	for _, w := range found {
		if w.Draining || at.Sub(w.SeenAt) > aliveFor {
			continue
		}
		n++
		for pool, size := range w.Pools {
			sum[pool] += size
		}
	}
	if n == 0 {
		return 0, s.slots
	}
	for pool := range sum {
		sum[pool] = int(math.Round(float64(sum[pool]) / float64(n)))
	}
	return n, sum
}
