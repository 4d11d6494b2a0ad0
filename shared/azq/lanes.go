package azq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// DefaultLanes is Options.Lanes when it is 0: how many queues each laned [Spec] has.
//
// A queue is roughly first in, first out, so a customer who sends 500 jobs would make all
// others wait, and Azure Storage queues have no message groups. So all work of a job goes
// into one of several queues, and a customer who fills a lane delays that lane only (Q5).
//
// Before you lower the number, wait until the lanes that will go are empty: no worker
// reads them afterwards.
const DefaultLanes = 4

// LaneName is the name of a queue's lane: the base name for lane 0, then "<base>-1"
// and so on.
func LaneName(base string, lane int) string {
	if lane > 0 {
		return fmt.Sprintf("%s-%d", base, lane)
	}
	return base
}

// Lane is the number of the lane that the spec of an open queue is for.
func (s Spec) Lane() int { return s.lane }

// Base is the name of lane 0.
func (s Spec) Base() string { return cmp.Or(s.base, s.Name) }

// withLanes returns one spec for each queue.
func withLanes(specs []Spec, lanes int) []Spec {
	var all []Spec
	for _, s := range specs {
		all = append(all, s)
		for lane := 1; s.Laned && lane < lanes; lane++ {
			side := s
			side.Name, side.lane, side.base = LaneName(s.Name, lane), lane, s.Name
			all = append(all, side)
		}
	}
	return all
}

const (
	// shortLane: up to this many messages, new jobs go to lane 0. A queue this short
	// delays no caller.
	shortLane  = 2
	lengthsFor = time.Second // how long the lanes' lengths are remembered
	// A customer is quiet while it has sent at most quietJobs. All begin anew after quietSpan.
	quietJobs = 4
	quietSpan = time.Minute
)

// laneLengths remembers how many messages are in each lane, summed over all queues.
type laneLengths struct {
	mu     sync.Mutex
	readAt time.Time
	length []int64        // by lane
	sent   map[string]int // jobs by customer, through this process
	since  time.Time      // when that was empty
}

// Lane chooses the lane for a new job of a customer:
//
//   - lane 0 while that is short;
//   - else, for an urgent job and for a customer who has sent little lately, the
//     shortest lane;
//   - else the shorter of two that the customer's name determines. The job is then bulk: what
//     it runs may step back for others, who wait.
//
// The lengths are read at most once a second: a user waits for the answer. What a customer
// sent is counted in this process only. When the lengths cannot be read the choice is still
// a valid lane, perhaps not the shortest.
func (c *Client) Lane(ctx context.Context, customer string, urgent bool) (lane int, bulk bool) {
	l := c.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.since) > quietSpan {
		l.sent, l.since = map[string]int{}, time.Now()
	}
	l.sent[customer]++
	c.measure(ctx)
	if l.length[0] > shortLane && len(l.length) > 1 {
		bulk = !urgent && l.sent[customer] > quietJobs
		two := twoLanes(customer, len(l.length))
		lane = two[0]
		for other := range l.length {
			if l.length[other] < l.length[lane] && (!bulk || slices.Contains(two, other)) {
				lane = other
			}
		}
	}
	l.length[lane]++ // an estimate of its messages, until the lengths are read again
	return lane, bulk
}

// measure reads the lengths of all lanes, in parallel, unless that was tried a short time
// ago: senders must not wait for one timeout after the other. The caller holds mu.
func (c *Client) measure(ctx context.Context) {
	l := c.lanes
	if time.Since(l.readAt) < lengthsFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	sum := make([]atomic.Int64, len(l.length))
	group, ctx := errgroup.WithContext(ctx)
	for _, spec := range c.specs {
		if spec.Laned {
			group.Go(func() error {
				state, err := c.byName[spec.Name].Length(ctx)
				sum[spec.lane].Add(state.Length)
				return err
			})
		}
	}
	if group.Wait() == nil {
		for lane := range sum {
			l.length[lane] = sum[lane].Load()
		}
	}
	l.readAt = time.Now()
}

// twoLanes returns two lanes beside lane 0, different ones if there are two. The same customer
// gets the same in every process. With one each, two busy customers might share it for ever.
func twoLanes(customer string, lanes int) []int {
	side := lanes - 1
	first := tablestore.Shard(customer, side)
	second := (first + 1 + tablestore.Shard("second of "+customer, max(1, side-1))) % side
	return []int{1 + first, 1 + second}
}
