package scaling

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
)

const (
	fresh       = 2 * time.Second // an answer this old is given again
	readTimeout = 5 * time.Second
	parallel    = 8
	aliveFor    = 15 * time.Second // a heartbeat comes every 3 s

	// believe is how many items count as measured by Spec.Typical: the first item of a
	// queue, which may be an odd one, does not decide alone.
	believe = 5
)

// Source reads what the rule needs when somebody asks, and not at all when nobody
// does: one request for each lane's length, one more for the first messages of a lane
// that has some, one for the workers. It is safe for concurrent use.
type Source struct {
	queues   *workqueue.Queues
	register *workers.Register
	slots    map[string]int // of a worker, while there is none to tell
	window   *Window

	underWay singleflight.Group
	mu       sync.Mutex
	latest   Decision
}

// NewSource returns a source. slots is what a worker has of each pool; what living
// workers say goes before it.
func NewSource(queues *workqueue.Queues, register *workers.Register, slots map[string]int, s Settings) *Source {
	return &Source{queues: queues, register: register, slots: slots, window: NewWindow(s)}
}

// Settings returns the targets and the bounds.
func (s *Source) Settings() Settings { return s.window.Settings() }

// Now says how many workers should run. The answer may be 2 s old.
func (s *Source) Now(ctx context.Context) (Decision, error) {
	if d, known := s.remembered(); known {
		return d, nil
	}
	// Anyone who asks meanwhile waits for the same reading, which has a deadline of its own.
	result := s.underWay.DoChan("", func() (any, error) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		lanes, found, err := s.read(reading)
		if err != nil {
			return Decision{}, err
		}
		return s.Decide(time.Now(), lanes, found), nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return Decision{}, fmt.Errorf("count the workers wanted: %w", r.Err)
		}
		return r.Val.(Decision), nil
	case <-ctx.Done():
		return Decision{}, fmt.Errorf("count the workers wanted: %w", ctx.Err())
	}
}

func (s *Source) remembered() (Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, time.Since(s.latest.Seen.At) < fresh
}

// Lane is what was seen of one storage queue.
type Lane struct {
	Name            string // with lane
	Length, Visible int64
	Oldest          time.Time // when the oldest visible message was sent; zero without one
}

// read asks for everything once.
func (s *Source) read(ctx context.Context) ([]Lane, []workers.Worker, error) {
	specs := s.queues.Specs()
	lanes, full := make([]Lane, len(specs)), make([]bool, len(specs))
	var found []workers.Worker
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	group.Go(func() (err error) {
		found, err = s.register.List(ctx, time.Now().Add(-aliveFor))
		return err
	})
	for i, spec := range specs {
		group.Go(func() (err error) {
			lanes[i], full[i], err = readLane(ctx, s.queues.Queue(spec.Name))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for i := range lanes {
		if full[i] { // what is beyond can be told by nobody but those who hold the rest
			lanes[i].Visible = max(lanes[i].Visible, lanes[i].Length-held(found, lanes[i].Name))
		}
	}
	return lanes, found, nil
}

// readLane reports with full that there may be more visible messages than it saw.
func readLane(ctx context.Context, q *workqueue.Queue) (lane Lane, full bool, err error) {
	lane.Name = q.Name()
	state, err := q.Length(ctx)
	if err != nil || state.Length == 0 {
		if workqueue.IsMissing(err) {
			err = nil
		}
		return lane, false, err
	}
	seen, err := q.Peek(ctx, workqueue.MaxBatch)
	if err != nil && !workqueue.IsMissing(err) {
		return lane, false, err
	}
	lane.Visible = int64(len(seen))
	lane.Length = max(state.Length, lane.Visible)
	for _, p := range seen {
		if lane.Oldest.IsZero() || p.Inserted.Before(lane.Oldest) {
			lane.Oldest = p.Inserted
		}
	}
	return lane, len(seen) == workqueue.MaxBatch, nil
}

// held is how many messages of a lane are with workers.
func held(found []workers.Worker, lane string) (n int64) {
	for _, w := range found {
		for _, task := range w.Busy {
			if task.Queue == lane {
				n++
			}
		}
	}
	return n
}

// Decide applies the rule to what the caller has read: the board looks anyway. Lanes
// of queues that are not declared are ignored.
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
				Paused: s.queues.Queue(spec.Name).Policy().Paused, Each: s.each(spec, found), Slots: spec.SlotsOf(seen.Slots[spec.Pool]),
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
