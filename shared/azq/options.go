package azq

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"
)

// Options are a client's settings. Zero values mean the defaults.
type Options struct {
	// Namespace begins the type of items: the product that they belong to. Default
	// [DefaultNamespace].
	Namespace string

	// Queues are the queues that the client knows. Default: one, "default". Senders and
	// workers declare the same.
	Queues []Spec

	Lanes int // how many queues each laned Spec has; default [DefaultLanes]

	// SendMiddleware goes around each sending, the first outermost.
	SendMiddleware []func(Sender) Sender

	// The rest concerns workers: clients that Run.

	// Handlers do the work, by the kind of an item, for an engine whose kinds are data. [Handle]
	// adds typed ones. An item of a kind without a handler is snoozed for a worker that has
	// one (paper row Q6).
	Handlers map[string]Handler

	// Middleware goes around each handler, the first outermost.
	Middleware []func(Handler) Handler

	// Pools is how many items of each pool are worked on at once; 0 leaves it to others. Nil
	// gives each pool a slot for each core.
	Pools map[string]int

	// Version is the newest version of items that the handlers understand. Newer
	// items are snoozed like those of an unknown kind. Default 1.
	Version int

	Worker string // names this process in histories and statistics; default: host name

	// StallAfter is how long a handler may make no progress. Default 60 s. It begins anew
	// when the whole process stood still, such as on a suspended machine.
	StallAfter time.Duration

	// StopWithin is how long after the drain began the message of a handler that still
	// runs is released. Default 500 ms.
	StopWithin time.Duration

	// DrainTimeout is how long after the drain began Run waits for handlers. Default: for ever.
	DrainTimeout time.Duration

	RefreshPolicy time.Duration // between two reads of each queue's length and policy; default 15 s
	DeferPause    time.Duration // an item that this worker does not understand is snoozed; default 30 s

	// FirstRetry and MaxRetry bound the pause after a failed attempt, which
	// doubles with every failure. Defaults 2 s and 5 min.
	FirstRetry, MaxRetry time.Duration

	// MaxUnexplained is how many deliveries of an item may end without a record in
	// its message before it is poison: it probably kills its workers. Default 20. From half of
	// them on the message says of each attempt that it begins, and only those count: a
	// delivery whose reply was lost has reached no handler.
	MaxUnexplained int

	OpensAfter int // troubles with a dependency in a row that open its circuit breaker; default 3

	// DependencyPause and MaxDependencyPause bound how long an item that met trouble is
	// hidden and an open breaker waits, doubled each time. Defaults 1 s and 30 s.
	DependencyPause, MaxDependencyPause time.Duration

	// Probes check whether a dependency works (an azstore.Service, Disk). One
	// without a probe is tried with one item.
	Probes map[string]func(context.Context) error

	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Worker == "" {
		o.Worker, _ = os.Hostname()
	}
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	if o.Queues == nil {
		o.Queues = []Spec{{Name: "default"}}
	}
	o.Lanes = cmp.Or(max(o.Lanes, 0), DefaultLanes)
	o.OpensAfter = cmp.Or(o.OpensAfter, 3)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Version = cmp.Or(o.Version, 1)
	o.StallAfter = cmp.Or(o.StallAfter, 60*time.Second)
	o.StopWithin = cmp.Or(o.StopWithin, 500*time.Millisecond)
	o.RefreshPolicy = cmp.Or(o.RefreshPolicy, 15*time.Second)
	o.DeferPause = cmp.Or(o.DeferPause, 30*time.Second)
	o.FirstRetry = cmp.Or(o.FirstRetry, 2*time.Second)
	o.MaxRetry = cmp.Or(o.MaxRetry, 5*time.Minute)
	o.MaxUnexplained = cmp.Or(o.MaxUnexplained, 20)
	o.DependencyPause = cmp.Or(o.DependencyPause, time.Second)
	o.MaxDependencyPause = cmp.Or(o.MaxDependencyPause, 30*time.Second)
	return o
}

// check finds settings with which some work would never be done.
func (o Options) check(specs []Spec, handlers map[string]Handler) (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !typeName.MatchString(Item{Namespace: o.Namespace, Kind: "a", Version: 1}.Type()) {
		bad("namespace %q: use up to 40 lower-case letters, digits and hyphens, a letter first", o.Namespace)
	}
	names, pools, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, spec := range specs {
		if names[spec.Name] {
			bad("queue %s is declared twice, or called like a lane of another: rename one", spec.Name)
		}
		names[spec.Name] = true
		if !queueName.MatchString(spec.Name) || len(spec.Name) < 3 || len(spec.Name) > 50 {
			bad("queue %q: a name has 3 to 50 lower-case letters, digits and single hyphens", spec.Name)
		}
		if spec.Visibility < minVisibility || spec.Visibility > maxVisibility {
			bad("queue %s: a visibility of %v: use %v to %v", spec.Name, spec.Visibility, minVisibility, maxVisibility)
		}
		if spec.Lane() > 0 {
			continue // lane 0 has the same settings
		}
		slots, known := o.slots(spec.Pool)
		pools[spec.Pool] = true
		if !known {
			bad("queue %s: pool %q has no slots: give it some in Options.Pools, or 0 to leave it to other workers", spec.Name, spec.Pool)
		}
		carried := carriedBy(spec, specs, handlers)
		if slots > 0 && len(carried) == 0 {
			bad("queue %s carries no kind: name those of its items in Spec.Kinds, or handle one that no other queue names", spec.Name)
		}
		for _, kind := range carried {
			kinds[kind] = true
			if slots > 0 && handlers[kind] == nil {
				bad("queue %s: kind %q has no handler: add one, or give pool %q 0 slots", spec.Name, kind, spec.Pool)
			}
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(o.Pools)) {
		if !pools[pool] {
			bad("pool %q: no queue uses it: name it in a Spec.Pool, or remove it", pool)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(handlers)) {
		if !kinds[kind] {
			bad("handler of kind %q: no queue carries it: name it in a Spec.Kinds", kind)
		}
	}
	return problems
}

var queueName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// slots returns the size of a pool, and whether it has one.
func (o Options) slots(pool string) (n int, known bool) {
	if o.Pools == nil {
		return runtime.GOMAXPROCS(0), true
	}
	n, known = o.Pools[pool]
	return n, known
}

// carriedBy returns the kinds of a queue: those that it names, or else each that is handled
// and that no queue names.
func carriedBy(spec Spec, specs []Spec, handlers map[string]Handler) []string {
	if len(spec.Kinds) > 0 {
		return spec.Kinds
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(handlers)), func(kind string) bool {
		return !spec.carries(kind, specs)
	})
}

// carries reports whether items of a kind belong into a queue: it names the kind, or else it
// names none and no other queue names that one.
func (s Spec) carries(kind string, specs []Spec) bool {
	named := func(s Spec) bool { return slices.Contains(s.Kinds, kind) }
	return named(s) || len(s.Kinds) == 0 && !slices.ContainsFunc(specs, named)
}

// retryDelay is the pause after the n-th failure.
func (o Options) retryDelay(n int) time.Duration { return grow(o.FirstRetry, o.MaxRetry, n) }

// grow returns first, doubled n−1 times, at most longest, varied by spread.
func grow(first, longest time.Duration, n int) time.Duration {
	return spread(time.Duration(min(math.Ldexp(float64(first), n-1), float64(longest))))
}

// spread varies d by up to a fifth, so that workers do not all ask at once.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

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

// What the service accepts as the visibility of a received message:
// https://learn.microsoft.com/rest/api/storageservices/get-messages
const (
	minVisibility = time.Second
	maxVisibility = 7 * 24 * time.Hour
)
