package workflow

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cutroom/cutroom/shared/azq"
)

// The queues: one for each kind of work with a duration of its own (paper rows Q5 and Q16b).
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

// The pools: heavy work never takes the slot of light work (paper row Q5).
const (
	Light = "light"
	Heavy = "heavy"
)

// Pools returns the slots of each pool unless WORKERROLE_POOLS says otherwise. Heavy work gets
// a slot for each core that the process may use: Go counts a container's CPU quota.
// A pool of one's own is named here.
func Pools() map[string]int { return map[string]int{Light: 4, Heavy: runtime.GOMAXPROCS(0)} }

// ItemVersion is the newest version of items that this code understands. Raise it when
// the data of an item, or a row that the item's step reads, changes so that workers of
// before would misread it: they leave newer items to newer workers (paper row Q6).
const ItemVersion = 1

// Specs is the one place to add a queue. Treat it as read-only;
// WithVisibility returns changed copies.
var Specs = withKinds([]azq.Spec{
	{Name: Probe, Pool: Light, Laned: true, Visibility: 60 * time.Second, Typical: time.Second, Weight: 24, Urgent: true, MaxIdlePoll: 500 * time.Millisecond},
	{Name: EncodeFirst, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Typical: 2 * time.Second, Weight: 24, Urgent: true, MaxIdlePoll: time.Second},
	{Name: EncodeHigh, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Typical: 2 * time.Second, Weight: 6, MaxIdlePoll: time.Second},
	{Name: EncodeNormal, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Typical: 30 * time.Second, Weight: 3, MaxIdlePoll: 2 * time.Second},
	{Name: EncodeLow, Pool: Heavy, Laned: true, Visibility: 120 * time.Second, Typical: 30 * time.Second, Weight: 1, MaxIdlePoll: 2 * time.Second},
	{Name: AudioFirst, Pool: Light, Laned: true, Visibility: 60 * time.Second, Typical: time.Second, Weight: 24, Urgent: true, MaxIdlePoll: time.Second},
	{Name: Audio, Pool: Light, Laned: true, Visibility: 120 * time.Second, Typical: 3 * time.Second, Weight: 3, MaxIdlePoll: 2 * time.Second},
	{Name: Finish, Pool: Light, Laned: true, Visibility: 120 * time.Second, Typical: time.Second, Weight: 24, Urgent: true},
	{Name: Index, Pool: Light, Visibility: 30 * time.Second, Typical: 300 * time.Millisecond, Weight: 2},
	{Name: Purge, Pool: Light, Visibility: 60 * time.Second, Typical: 500 * time.Millisecond, Weight: 1},
})

// longestVisibility is what the service accepts at most:
// https://learn.microsoft.com/rest/api/storageservices/get-messages
const longestVisibility = 7 * 24 * time.Hour

// WithVisibility returns Specs with the visibility timeouts of CUTROOM_VISIBILITY, a list of
// queue=duration in whole seconds: "encode-high=5s,*=10s". "*" is every queue that the list
// does not name. One error reports all mistakes.
func WithVisibility(list string) ([]azq.Spec, error) {
	changed := slices.Clone(Specs)
	parts := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	slices.Sort(parts) // "*" comes before every name
	var problems []error
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		d, err := time.ParseDuration(value)
		known := name == "*"
		for i := range changed {
			if name == "*" || changed[i].Name == name {
				changed[i].Visibility, known = d, true
			}
		}
		if !known {
			problems = append(problems, fmt.Errorf("there is no queue %q", name))
		} else if err != nil || d < time.Second || d > longestVisibility || d%time.Second != 0 {
			problems = append(problems, fmt.Errorf("%q is not queue=duration, in whole seconds from 1s to %v", part, longestVisibility))
		}
	}
	return changed, errors.Join(problems...)
}

// Visibilities lists the timeouts of specs the way WithVisibility reads them.
func Visibilities(specs []azq.Spec) string {
	list := make([]string, len(specs))
	for i, s := range specs {
		list[i] = s.Name + "=" + s.Visibility.String()
	}
	return strings.Join(list, ",")
}

// Niceness is how far the programs of a queue's items step back on the processor, as nice(1)
// counts: not at all for what a viewer waits for, a little for the next chunks, and far for
// bulk. Further would be too far: a program that hardly runs keeps its slot for long.
var Niceness = map[string]int{EncodeHigh: 3, EncodeNormal: BulkNice, EncodeLow: BulkNice, Audio: BulkNice}

// BulkNice is the niceness of bulk work.
const BulkNice = 12

// withKinds names the steps of each queue in it.
func withKinds(specs []azq.Spec) []azq.Spec {
	for i := range specs {
		for _, s := range Steps {
			if slices.Contains(s.Queues, specs[i].Name) {
				specs[i].Kinds = append(specs[i].Kinds, s.Name)
			}
		}
	}
	return specs
}
