package workqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The queues. Each kind of work with a duration of its own has a queue of its
// own (paper rows Q5 and Q16b). Names are completed with the stack's prefix.
const (
	Probe        = "probe"
	EncodeFirst  = "encode-first" // the first chunk of every video
	EncodeHigh   = "encode-high"
	EncodeNormal = "encode-normal"
	EncodeLow    = "encode-low"
	AudioFirst   = "audio-first" // the first seconds of every video's sound
	Audio        = "audio"
	Finish       = "finish"
	Index        = "index"
	Purge        = "purge"
)

// The pools: groups of slots in a worker role. Heavy work never takes the slot
// of light work (paper row Q5).
const (
	Light = "light"
	Heavy = "heavy"
)

// Spec declares a queue.
type Spec struct {
	Name string // base name
	Pool string // whose slots its items take

	// Laned makes [Lanes] queues of this declaration: see [LaneName].
	Laned bool

	// Visibility is how long a received message stays hidden unless its lease is
	// renewed: whole seconds, at least 1. It is also how long the work of a
	// killed worker waits for the next one, so it is short and leases are renewed
	// (paper row Q16a). The policy in force may be longer: see [Policy].
	Visibility time.Duration

	// Weight is the queue's share of its pool while other queues of the pool
	// have work too: 6:3:1 means six, three and one item out of ten.
	Weight int

	// Urgent queues carry what a video needs to begin. Within a lane they go
	// before the pool's other queues, and together they have one slot beyond the
	// pool's size: critical work never waits behind bulk work (paper row Q5).
	Urgent bool

	// MaxWait is the age at which the oldest item goes before other queues'
	// items, at every second turn at most; 0 means never.
	MaxWait time.Duration

	MaxIdlePoll time.Duration // longest pause between two looks at an empty queue
	MaxFailures int           // failed attempts before an item is poison

	lane int // set by withLanes
}

// Specs is the one place to add a queue. Treat it as read-only; [WithVisibility]
// returns changed copies.
var Specs = []Spec{
	{Name: Probe, Pool: Light, Laned: true, Visibility: 60 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: 500 * time.Millisecond, MaxFailures: 5},
	{Name: EncodeFirst, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: time.Second, MaxFailures: 5},
	{Name: EncodeHigh, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 6, MaxWait: 5 * time.Minute, MaxIdlePoll: time.Second, MaxFailures: 5},
	{Name: EncodeNormal, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 3, MaxWait: 10 * time.Minute, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
	{Name: EncodeLow, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Weight: 1, MaxWait: 30 * time.Minute, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
	{Name: AudioFirst, Pool: Light, Laned: true, Visibility: 60 * time.Second, Weight: 6, Urgent: true, MaxIdlePoll: time.Second, MaxFailures: 5},
	{Name: Audio, Pool: Light, Laned: true, Visibility: 120 * time.Second, Weight: 3, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
	{Name: Finish, Pool: Light, Laned: true, Visibility: 120 * time.Second, Weight: 3, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
	{Name: Index, Pool: Light, Visibility: 30 * time.Second, Weight: 2, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
	{Name: Purge, Pool: Light, Visibility: 60 * time.Second, Weight: 1, MaxIdlePoll: 5 * time.Second, MaxFailures: 5},
}

// PoisonName is the name of the queue where the poisoned messages of a base
// queue go, those of its other lanes too.
func PoisonName(base string) string { return base + "-poison" }

// Names lists every queue of [Specs]: each base queue, its poison queue, its
// other lanes.
func Names() []string { return namesOf(withLanes(Specs)) }

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

// WithVisibility returns specs with other visibility timeouts. The text, which
// the roles read from CUTROOM_VISIBILITY, is a list of queue=duration:
//
//	encode-high=5s,encode-low=1m,*=10s
//
// "*" is every queue that is not named, wherever it stands. Durations are whole
// seconds from 1s to 168h, which is what the service accepts. An empty text
// changes nothing. All mistakes are reported together.
func WithVisibility(specs []Spec, text string) ([]Spec, error) {
	changed := slices.Clone(specs)
	if strings.TrimSpace(text) == "" {
		return changed, nil
	}
	wanted := map[string]time.Duration{}
	var problems []error
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		known := name == "*" || slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == name })
		d, err := time.ParseDuration(value)
		switch {
		case !found:
			problems = append(problems, fmt.Errorf("%q is not queue=duration", part))
		case !known:
			problems = append(problems, fmt.Errorf("there is no queue %q", name))
		case err != nil, d < minVisibility, d > maxVisibility, d%time.Second != 0:
			problems = append(problems, fmt.Errorf("%q of queue %s is not whole seconds from %v to %v", value, name, minVisibility, maxVisibility))
		default:
			wanted[name] = d
		}
	}
	for i := range changed {
		if d, found := wanted[changed[i].Name]; found {
			changed[i].Visibility = d
		} else if d, found := wanted["*"]; found {
			changed[i].Visibility = d
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("visibility: %w", err)
	}
	return changed, nil
}

// What the service accepts as the visibility of a received message:
// https://learn.microsoft.com/rest/api/storageservices/get-messages
const (
	minVisibility = time.Second
	maxVisibility = 7 * 24 * time.Hour
)
