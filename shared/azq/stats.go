package azq

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Stats is a snapshot of a worker, for /ops/workers and for metrics.
type Stats struct {
	Worker   string       `json:"worker"`
	Draining bool         `json:"draining"`
	Pools    []PoolStats  `json:"pools"`
	Queues   []QueueStats `json:"queues"`
	Running  []Running    `json:"running"` // oldest first

	Breakers []BreakerStats `json:"breakers"` // by dependency
}

// PoolStats says how busy a pool is.
type PoolStats struct {
	Name  string `json:"name"`
	Slots int    `json:"slots"`
	Busy  int    `json:"busy"` // working or asking for work
}

// QueueStats counts, since the start of the process, what happened to the
// messages of one queue.
type QueueStats struct {
	Queue      string        `json:"queue"`
	Base       string        `json:"-"`          // see Job
	Length     int64         `json:"length"`     // approximate, hidden ones included, of the latest refresh
	Visibility time.Duration `json:"visibility"` // in force, nanoseconds
	Paused     bool          `json:"paused"`

	Received      int64 `json:"received"`
	Completed     int64 `json:"completed"`
	Unwanted      int64 `json:"unwanted"`      // deleted without being done: the work is not wanted any more
	Failed        int64 `json:"failed"`        // attempts
	Poisoned      int64 `json:"poisoned"`      // items
	Released      int64 `json:"released"`      // interrupted, not by trouble
	Troubled      int64 `json:"troubled"`      // met trouble
	TroubledOften int64 `json:"troubledOften"` // of these, deliveries of items that were released 50 times and more
	Snoozed       int64 `json:"snoozed"`
	PutBack       int64 `json:"putBack"` // snoozed for a newer worker; not in Snoozed

	// Worked is how long the completed items took together, each from its receiving to
	// its delete. Nanoseconds. By it the wait for a queue is estimated (Q18).
	Worked time.Duration `json:"worked"`

	EmptyPolls    int64 `json:"emptyPolls"`
	ReceiveErrors int64 `json:"receiveErrors"`
	RenewErrors   int64 `json:"renewErrors"`
	SettleErrors  int64 `json:"settleErrors"`
	Renewals      int64 `json:"renewals"`
	StaleRenewals int64 `json:"staleRenewals"` // the message had become visible to others (Q17)
	StaleDeletes  int64 `json:"staleDeletes"`  // the same at a delete (Q16d)
	StaleReleases int64 `json:"staleReleases"` // the same at a release
	Superseded    int64 `json:"superseded"`    // left alone: another delivery owned the work (Q17)
	ReceiptsLost  int64 `json:"receiptsLost"`  // with a reply (Q13)
	LeasesEnding  int64 `json:"leasesEnding"`  // stopped before the lease ended (Q16c)
	Stalled       int64 `json:"stalled"`
	Panics        int64 `json:"panics"`
	HooksHung     int64 `json:"hooksHung"` // Exhausted and the like did not return in time
	CrashLoops    int64 `json:"crashLoops"`
}

// Running is an item in progress.
type Running struct {
	Delivery

	Queue    string    `json:"queue"`
	Kind     string    `json:"kind"`
	Subject  string    `json:"subject"`
	Item     string    `json:"item"`
	Attempt  int       `json:"attempt"`
	Renewals int64     `json:"renewals"` // of the lease
	Moved    time.Time `json:"moved"`    // latest progress
	Deadline time.Time `json:"deadline"` // of the lease
}

func (c *worker) stats() Stats {
	s := Stats{Worker: c.options.Worker, Draining: c.draining.Load(), Running: []Running{}, Breakers: c.breakers.stats()}
	for _, p := range c.pools {
		s.Pools = append(s.Pools, PoolStats{Name: p.name, Slots: p.size, Busy: p.inUse()})
	}
	for _, l := range c.pollers {
		s.Queues = append(s.Queues, l.stats())
	}
	for key := range c.owners.Range {
		o := key.(*owner)
		s.Running = append(s.Running, Running{
			Delivery: o.job.Delivery, Queue: o.job.Queue, Kind: o.job.Item.Kind, Subject: o.job.Item.Subject, Item: o.job.Item.ID,
			Attempt: o.job.Attempt(), Renewals: o.job.Renewals(), Moved: o.job.LastMoved(), Deadline: o.lease.Deadline(),
		})
	}
	slices.SortFunc(s.Running, func(a, b Running) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.MessageID, b.MessageID))
	})
	return s
}

// count changes the numbers of the queue.
func (l *queuePoller) count(change func(*QueueStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counted)
}

func (l *queuePoller) stats() QueueStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.counted
	if time.Now().After(l.awake) {
		s.Length = 0 // it is read no more
	}
	s.Queue, s.Base = l.queue.Name(), l.queue.Spec().Base()
	s.Visibility, s.Paused = l.queue.Visibility(), l.queue.Policy().Paused
	return s
}

// EventType says what happened.
type EventType string

// What [Client.Subscribe] tells.
const (
	EventDone        EventType = "done"         // the work is committed and the message deleted
	EventRetried     EventType = "retried"      // an attempt failed; another follows
	EventReleased    EventType = "released"     // given back at no cost: a drain, or dependency trouble
	EventSnoozed     EventType = "snoozed"      // not yet
	EventUnwanted    EventType = "unwanted"     // deleted without being done
	EventPoisoned    EventType = "poisoned"     // no further attempt
	EventLeaseLost   EventType = "lease lost"   // another worker has the message
	EventBreakerOpen EventType = "breaker open" // a dependency is in trouble: nothing is received
)

// Event is one thing that happened to an item, or to a dependency.
type Event struct {
	Type       EventType
	At         time.Time
	Queue      string // with the lane; empty for a dependency
	Item       Item   // as it was delivered; empty for a dependency
	Dependency string // of EventBreakerOpen
	Err        error  // why; nil when the work is done
}

// subscribers get events.
type subscribers struct {
	mu  sync.Mutex
	all map[chan Event]*int64
}

// Subscribe returns a channel of events from now on, which holds up to buffer of them. Events
// for which there is no room are dropped, so that a slow reader never delays work: stop ends
// the subscription, closes the channel, and returns how many were dropped.
func (c *Client) Subscribe(buffer int) (events <-chan Event, stop func() (dropped int64)) {
	s, channel, missed := &c.events, make(chan Event, max(buffer, 1)), new(int64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[channel] = missed
	return channel, func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[channel] != nil {
			delete(s.all, channel)
			close(channel)
		}
		return *missed
	}
}

func (s *subscribers) tell(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = time.Now()
	for channel, dropped := range s.all {
		select {
		case channel <- e:
		default:
			*dropped++
		}
	}
}
