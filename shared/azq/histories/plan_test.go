package histories_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// plan is a history before it happens.
type plan struct {
	Seed     uint64        // of what happens by chance: delays, which requests of a storm fail
	Skew     time.Duration // of the service's clock
	Items    []item
	Workers  []life
	Storms   []storm
	Pauses   []pause
	Scrawl   []scrawl
	Removals []removal
}

const (
	chaos   = 2 * time.Minute // how long things go wrong
	quiet   = time.Hour       // how long a healthy worker may then take for the rest
	workers = 2
)

// item is work that a producer sends.
type item struct {
	ID     string
	Queue  string
	At     time.Duration
	Shape  string
	Size   int    // bytes of data
	About  string // the subject
	Takes  time.Duration
	Script []outcome // of its attempts, one after the other; then it succeeds
}

// The shapes of a message.
const (
	ours    = "ours"
	plain   = "plain JSON" // as another program sends it
	newer   = "newer"      // of a version that only the last worker understands
	unknown = "unknown"    // of a step that only the last worker has
	garbage = "garbage"
)

// outcome is what a handler does.
type outcome string

const (
	succeeds  outcome = "succeeds"
	fails     outcome = "fails"
	latin1    outcome = "fails with Latin-1"
	talks     outcome = "fails with 100 KB"
	panics    outcome = "panics"
	exits     outcome = "ends its goroutine"
	snoozes   outcome = "snoozes"
	later     outcome = "names the time of a retry"
	troubled  outcome = "meets trouble"
	hangs     outcome = "hangs"
	dies      outcome = "kills its worker"
	permanent outcome = "fails for good"
	unwanted  outcome = "is unwanted"
)

var outcomes = []outcome{succeeds, fails, latin1, talks, panics, exits, snoozes, later, troubled, hangs, dies, permanent, unwanted}

// failing reports whether an outcome is an attempt that failed.
func (o outcome) failing() bool {
	switch o {
	case fails, latin1, talks, panics, exits, later, hangs:
		return true
	}
	return false
}

// life is a worker's: it starts again after a while when it was killed.
type life struct {
	Start  time.Duration
	End    time.Duration
	Killed bool // and not drained
}

// storm is a time in which some requests fail.
type storm struct {
	From, For time.Duration
	Fault     fault
	Of        string  // which requests
	Share     float64 // of them
}

// The requests that a storm is for.
const (
	every    = "every request"
	receives = "receives"
	settles  = "updates and deletes"
	metadata = "metadata"
	rows     = "rows"
)

func (s storm) hits(r *http.Request) bool {
	messages := r.URL.Port() == "10001" && strings.Contains(r.URL.Path, "/messages")
	switch s.Of {
	case receives:
		return messages && r.Method == http.MethodGet
	case settles:
		return messages && (r.Method == http.MethodPut || r.Method == http.MethodDelete)
	case metadata:
		return r.URL.Query().Get("comp") == "metadata"
	case rows:
		return r.URL.Port() == "10002"
	}
	return true
}

// pause is an operator's. Two may write at once.
type pause struct {
	Queue    string
	From     time.Duration
	Paused   bool
	SlowDown bool // the operator's own requests are slow
}

// scrawl is what a person writes into a queue's metadata by hand.
type scrawl struct {
	At    time.Duration
	Queue string
	Value string // of the visibility
}

// removal is of every message of a queue, by another tool.
type removal struct {
	At    time.Duration
	Queue string
}

func within(longest time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(0, longest.Milliseconds()).Draw(t, "ms")) * time.Millisecond
	})
}

// plans draws histories. Half of them have no storm and no killed worker: there everything is
// exact.
func plans(t *rapid.T) plan {
	p := plan{
		Seed: rapid.Uint64().Draw(t, "seed"),
		Skew: rapid.SampledFrom([]time.Duration{0, 0, time.Hour, -time.Hour, -90 * time.Second}).Draw(t, "skew"),
	}
	calm := rapid.Bool().Draw(t, "calm")
	p.Items = rapid.SliceOfN(rapid.Custom(items(calm)), 1, 12).Draw(t, "items")
	for i := range p.Items {
		p.Items[i].ID = fmt.Sprint("item", i)
	}
	p.Workers = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) life {
		l := life{Start: within(chaos/3).Draw(t, "start"), End: chaos, Killed: !calm && rapid.Bool().Draw(t, "killed")}
		if !calm {
			l.End = l.Start + within(chaos-l.Start).Draw(t, "life")
		}
		return l
	}), 1, workers).Draw(t, "workers")
	p.Pauses = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pause {
		return pause{
			Queue: rapid.SampledFrom(queueNames).Draw(t, "queue"), From: within(chaos/8).Draw(t, "from"),
			Paused: rapid.Bool().Draw(t, "paused"), SlowDown: !calm && rapid.Bool().Draw(t, "slow"),
		}
	}), 0, 3).Draw(t, "pauses")
	if calm {
		return p
	}
	p.Storms = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) storm {
		return storm{
			From: within(chaos).Draw(t, "from"), For: within(chaos/2).Draw(t, "for"), Fault: rapid.SampledFrom(faults).Draw(t, "fault"),
			Of:    rapid.SampledFrom([]string{every, receives, settles, metadata, rows}).Draw(t, "of"),
			Share: rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "share"),
		}
	}), 0, 4).Draw(t, "storms")
	p.Scrawl = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) scrawl {
		return scrawl{
			At: within(chaos/2).Draw(t, "at"), Queue: rapid.SampledFrom(queueNames).Draw(t, "queue"),
			Value: rapid.SampledFrom([]string{"30", "-1", "many", "600000"}).Draw(t, "value"),
		}
	}), 0, 1).Draw(t, "scrawl")
	p.Removals = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) removal {
		return removal{At: within(chaos).Draw(t, "at"), Queue: rapid.SampledFrom(queueNames).Draw(t, "queue")}
	}), 0, 1).Draw(t, "removals")
	return p
}

func items(calm bool) func(t *rapid.T) item {
	return func(t *rapid.T) item {
		queue := rapid.SampledFrom(queueNames).Draw(t, "queue")
		i := item{
			Queue: queue, At: within(chaos/2).Draw(t, "at"), Takes: within(stepTakes[queue]).Draw(t, "takes"),
			Shape: rapid.SampledFrom([]string{ours, ours, ours, plain, newer, unknown, garbage}).Draw(t, "shape"),
			Size:  rapid.SampledFrom([]int{0, 100, 40_000, 50_000, 65_000}).Draw(t, "size"),
			About: rapid.SampledFrom([]string{"subject", "", strings.Repeat("s", 33_000), "caf\u00e9 \U0001F3AC"}).Draw(t, "about"),
		}
		i.Script = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) outcome {
			o := rapid.SampledFrom(outcomes).Draw(t, "outcome")
			if calm && (o == dies || o == troubled || o == hangs) {
				return succeeds
			}
			return o
		}), 0, 6).Draw(t, "script")
		return i
	}
}
