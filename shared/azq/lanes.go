package azq

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
)

// DefaultLanes is Options.Lanes when it is 0: how many queues each laned [Spec] has.
//
// A queue is first in, first out, so a customer who sends 500 jobs would make all
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
	// A customer is quiet while it has sent at most quietJobs within quietSpan.
	quietJobs    = 4
	quietSpan    = time.Minute
	maxCustomers = 10_000 // of whom is remembered what they sent
)

// laneLengths remembers how many messages are in each lane, summed over all queues.
type laneLengths struct {
	mu     sync.Mutex
	readAt time.Time
	length []int64                     // by lane
	sent   *lru.Cache[string, sending] // by customer
}

// sending is what one customer has sent lately through this process.
type sending struct {
	since time.Time
	jobs  int
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
func (qs *queues) Lane(ctx context.Context, customer string, urgent bool) (lane int, bulk bool) {
	l := &qs.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	lately := l.note(customer)
	qs.measure(ctx)
	if l.length[0] > shortLane && len(l.length) > 1 {
		bulk = !urgent && lately > quietJobs
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

// note counts a job of a customer, and returns how many it has sent lately. The caller
// holds mu.
func (l *laneLengths) note(customer string) int {
	s, known := l.sent.Get(customer)
	if !known || time.Since(s.since) > quietSpan {
		s = sending{since: time.Now()}
	}
	s.jobs++
	l.sent.Add(customer, s)
	return s.jobs
}

// measure reads the lengths of all lanes, in parallel, unless that was tried a short time
// ago: senders must not wait for one timeout after the other. The caller holds mu.
func (qs *queues) measure(ctx context.Context) {
	l := &qs.lanes
	if time.Since(l.readAt) < lengthsFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	sum := make([]atomic.Int64, len(l.length))
	group, ctx := errgroup.WithContext(ctx)
	for _, spec := range qs.specs {
		if spec.Laned {
			group.Go(func() error {
				state, err := qs.byName[spec.Name].Length(ctx)
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
	h := fnv.New64a()
	h.Write([]byte(customer))
	sum, side := h.Sum64(), uint64(lanes-1)
	first := sum >> 32 % side
	second := first
	if side > 1 {
		second = (first + 1 + sum&0xffffffff%(side-1)) % side
	}
	return []int{1 + int(first), 1 + int(second)}
}
