package azq

import (
	"sync"
	"time"
)

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

// subscribers get events. The zero value has none.
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
	if s.all == nil {
		s.all = map[chan Event]*int64{}
	}
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
