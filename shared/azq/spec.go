package azq

import (
	"cmp"
	"time"
)

// Spec declares a queue. Work that takes much longer or shorter than other work
// should have a queue of its own (paper rows Q5 and Q16b).
type Spec struct {
	Name string // base name, completed with the stack's prefix: 3 to 50 lower-case letters, digits and single hyphens

	// Kinds are those of its items. A queue without any carries each kind that no other
	// queue names.
	Kinds []string

	// Pool names the pool whose slots its items take; default "default". Bulk work in another pool
	// cannot take slots from this queue (paper row Q5).
	Pool string

	// Laned makes Options.Lanes queues of this declaration: see [LaneName].
	Laned bool

	// Visibility is how long a received message is hidden unless its lease is renewed. Whole
	// seconds, at least 1; default 30 s. The next worker waits this long for the message of a
	// killed one, so it should be short (paper row Q16a). See [Policy] for the one in force.
	Visibility time.Duration

	// Weight is the queue's share of the pool's time while other queues have work too:
	// with weights 6:3:1, six, three and one of ten seconds. Default 1.
	Weight int

	// Urgent queues carry what a user waits for. All of them together have one slot beyond
	// the pool's size. Give them a large weight, too (paper row Q5).
	Urgent bool

	// Typical is how long an item holds its slot. A queue is charged for its slots by it, and
	// it weighs the queue when workers are counted (paper row Q18). Default 1 s.
	Typical time.Duration

	MaxIdlePoll time.Duration // longest pause between two looks at a queue that had messages in the last minute; default 1 s
	MaxFailures int           // failed attempts before an item is poison; default 5

	lane  int    // set by withLanes, as base
	base  string // the name of lane 0; empty in lane 0
	found bool   // by Discover: what its program declares is not known
}

func (s Spec) withDefaults() Spec {
	if s.found {
		return s
	}
	s.Pool = cmp.Or(s.Pool, "default")
	s.Visibility = cmp.Or(s.Visibility, 30*time.Second)
	s.Weight = cmp.Or(s.Weight, 1)
	s.Typical = cmp.Or(s.Typical, time.Second)
	s.MaxIdlePoll = cmp.Or(s.MaxIdlePoll, time.Second)
	s.MaxFailures = cmp.Or(s.MaxFailures, 5)
	return s
}

// PoisonName is the name of the queue for the poison messages of all lanes of a base queue.
func PoisonName(base string) string { return base + "-poison" }

// Names lists every queue of the options: base queues, their poison queues and other lanes.
func Names(o Options) []string {
	o = o.withDefaults()
	return namesOf(withLanes(o.Queues, o.Lanes))
}

func namesOf(specs []Spec) []string {
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		if s.lane == 0 {
			names = append(names, PoisonName(s.Name))
		}
	}
	return names
}

// What the service accepts as the visibility of a received message:
// https://learn.microsoft.com/rest/api/storageservices/get-messages
const (
	minVisibility = time.Second
	maxVisibility = 7 * 24 * time.Hour
)
