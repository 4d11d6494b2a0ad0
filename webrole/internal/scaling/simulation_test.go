package scaling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/webrole/internal/api"
)

// A day of uploads in virtual time, 10,000 an hour on average: few at night, most at
// two in the afternoon, and at three 2,000 more within five minutes. Time moves in
// seconds. Each video is a minute long.
const (
	day       = 24 * 3600 // seconds
	perHour   = 10_000
	burstAt   = 15 * 3600
	burstFor  = 300
	burstMore = 2_000
)

// Of one worker, and of whatever starts and stops them.
const (
	heavySlots = 4
	lightSlots = 4
	startTakes = 60 // seconds from the decision to the first message
	askEvery   = 15
)

// The kinds of work of a video.
const (
	probe = iota
	firstChunk
	chunk
	finish
	kinds
)

const chunks = 5 // after the first

var kindsOfWork = [kinds]struct {
	queue api.ScaleQueue
	next  func(s *simulation, video int32)
}{
	probe: {api.ScaleQueue{Name: "probe", Pool: "light", Urgent: true, SecondsEach: .5}, func(s *simulation, v int32) {
		s.send(firstChunk, v)
		for range chunks {
			s.send(chunk, v)
		}
	}},
	firstChunk: {api.ScaleQueue{Name: "first", Pool: "heavy", Urgent: true, SecondsEach: 2}, (*simulation).chunkDone},
	chunk:      {api.ScaleQueue{Name: "bulk", Pool: "heavy", SecondsEach: 5}, (*simulation).chunkDone},
	finish:     {api.ScaleQueue{Name: "finish", Pool: "light", SecondsEach: 2}, func(s *simulation, v int32) { s.ready = append(s.ready, s.now-s.uploaded[v]) }},
}

type message struct{ video, sent int32 }

type ending struct {
	kind  int
	video int32
}

type simulation struct {
	now      int32
	uploaded []int32
	left     []int8 // chunks of each video
	queues   [kinds][]message
	hidden   [kinds]int64
	ends     map[int32][]ending
	budget   map[string]float64 // seconds of slots that are left in this second; negative: promised of the next

	workers, starting int
	starts            map[int32]int

	begun, ready  []int32 // seconds from the upload to the first chunk's begin, and to the end
	workerSeconds int64
	sizes         []int // of the fleet, at each question
}

func (s *simulation) send(kind int, video int32) {
	s.queues[kind] = append(s.queues[kind], message{video, s.now})
}

func (s *simulation) chunkDone(v int32) {
	if s.left[v]--; s.left[v] == 0 {
		s.send(finish, v)
	}
}

// uploads is how many videos come in a second.
func uploads(random *rand.Rand, now int32) int {
	rate := perHour / 3600.0 * (1 - 0.8*math.Cos(2*math.Pi*(float64(now)/day-1.0/12))) // least at two, most at two in the afternoon
	if now >= burstAt && now < burstAt+burstFor {
		rate += burstMore / float64(burstFor)
	}
	n := int(rate)
	if random.Float64() < rate-float64(n) {
		n++
	}
	return n
}

// simulate runs a day. resize is asked every askEvery seconds.
func simulate(resize func(Observation) int, workers int) *simulation {
	s := &simulation{workers: workers, ends: map[int32][]ending{}, starts: map[int32]int{}, budget: map[string]float64{}}
	random := rand.New(rand.NewPCG(1, 2))
	for ; s.now < day; s.now++ {
		for range uploads(random, s.now) {
			s.uploaded, s.left = append(s.uploaded, s.now), append(s.left, chunks+1)
			s.send(probe, int32(len(s.uploaded)-1))
		}
		for _, e := range s.ends[s.now] {
			s.hidden[e.kind]--
			kindsOfWork[e.kind].next(s, e.video)
		}
		delete(s.ends, s.now)
		s.workers += s.starts[s.now]
		s.starting -= s.starts[s.now]
		if s.now%askEvery == 0 {
			s.resize(resize(s.observe()))
		}
		s.workerSeconds += int64(s.workers + s.starting) // a worker is paid for from its start
		s.serve("light", lightSlots*s.workers, probe, finish)
		s.serve("urgent", s.workers, firstChunk) // the reserved slot
		s.serve("heavy", heavySlots*s.workers, firstChunk, chunk)
	}
	return s
}

func (s *simulation) observe() Observation {
	seen := Observation{
		At: time.Unix(int64(s.now), 0), Workers: s.workers, Slots: map[string]int{"heavy": heavySlots, "light": lightSlots},
	}
	for kind, w := range kindsOfWork {
		q := w.queue
		q.Visible, q.Hidden = int64(len(s.queues[kind])), s.hidden[kind]
		if q.Visible > 0 {
			q.OldestSeconds = float64(s.now - s.queues[kind][0].sent)
		}
		seen.Queues = append(seen.Queues, q)
	}
	return seen
}

func (s *simulation) resize(wanted int) {
	s.sizes = append(s.sizes, wanted)
	if more := wanted - s.workers - s.starting; more > 0 {
		s.starting += more
		s.starts[s.now+startTakes] += more
	}
	for ; s.workers > wanted; s.workers-- {
		s.budget["heavy"] -= heavySlots * kindsOfWork[chunk].queue.SecondsEach / 2 // what it had half done is done again
	}
}

// serve gives a second of slots to the queues, the first before the others.
func (s *simulation) serve(budget string, slots int, order ...int) {
	left := s.budget[budget] + float64(slots)
	for _, kind := range order {
		each := kindsOfWork[kind].queue.SecondsEach
		for left > 0 && len(s.queues[kind]) > 0 {
			m := s.queues[kind][0]
			s.queues[kind] = s.queues[kind][1:]
			left -= each
			s.hidden[kind]++
			end := s.now + int32(math.Ceil(each))
			s.ends[end] = append(s.ends[end], ending{kind, m.video})
			if kind == firstChunk {
				s.begun = append(s.begun, s.now-s.uploaded[m.video])
			}
		}
	}
	s.budget[budget] = min(left, 0)
}

func percentile(of []int32, p float64) time.Duration {
	slices.Sort(of)
	return time.Duration(of[min(int(p*float64(len(of))), len(of)-1)]) * time.Second
}

// turns is how often the fleet stopped growing and began to shrink, or the other way.
func turns(sizes []int) (n int) {
	direction := 0
	for i := 1; i < len(sizes); i++ {
		if d := sizes[i] - sizes[i-1]; d != 0 {
			if direction*d < 0 {
				n++
			}
			direction = d
		}
	}
	return n
}

func (s *simulation) line(name string) string {
	open := len(s.uploaded) - len(s.ready)
	return fmt.Sprintf("%-28s %6d %6v %6v %9v %9v %7d %8d %6d", name, len(s.uploaded), percentile(s.begun, .5), percentile(s.begun, .99),
		percentile(s.ready, .5), percentile(s.ready, .99), open, s.workerSeconds/3600, turns(s.sizes))
}

// Q18: a day by the real rule against fixed fleets. The table is in
// docs/patterns/scaling-by-queue-length.md.
func TestADayByTheRule(t *testing.T) {
	t.Parallel()
	settings := Settings{Begin: 10 * time.Second, Bulk: 30 * time.Minute, Floor: 2, Ceiling: 60, CoolDown: 5 * time.Minute}
	byRule := func(s Settings) *simulation {
		w := Window{Settings: s}
		return simulate(func(o Observation) int { return w.Decide(o).Wanted }, s.Floor)
	}
	fixed := func(n int) *simulation { return simulate(func(Observation) int { return n }, n) }
	rule := byRule(settings)
	hasty := settings
	hasty.CoolDown = 0
	without := byRule(hasty)
	mean, peak := fixed(19), fixed(38)
	var table strings.Builder
	fmt.Fprintf(&table, "%-28s %6s %6s %6s %9s %9s %7s %8s %6s\n", "workers", "videos", "begun", "", "ready", "", "not yet", "worker", "turns")
	fmt.Fprintf(&table, "%-28s %6s %6s %6s %9s %9s %7s %8s\n", "", "", "p50", "p99", "p50", "p99", "", "hours")
	for _, l := range []string{rule.line("by the rule, 2 to 60"), without.line("the same, no cool-down"), mean.line("19, enough for the mean"), peak.line("38, enough for the peak")} {
		table.WriteString(l + "\n")
	}
	t.Log("\n" + table.String())

	if p := percentile(rule.begun, .99); p > settings.Begin {
		t.Errorf("99 of 100 first chunks begin within %v, want %v", p, settings.Begin)
	}
	if p := percentile(rule.ready, .99); p > settings.Bulk {
		t.Errorf("99 of 100 videos are ready within %v, want %v", p, settings.Bulk)
	}
	if rule.workerSeconds > peak.workerSeconds*3/4 {
		t.Errorf("%d worker hours by the rule, %d with a fleet for the peak", rule.workerSeconds/3600, peak.workerSeconds/3600)
	}
	if a, b := turns(rule.sizes), turns(without.sizes); a > b/4 {
		t.Errorf("%d turns, and %d without a cool-down", a, b)
	}
}
