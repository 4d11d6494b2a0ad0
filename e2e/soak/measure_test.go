package soak

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/proc"
	"github.com/cutroom/cutroom/e2e/stack"
)

// meter samples the roles: memory from /proc, counters from their metrics. A
// process that is killed takes its counters with it; what it had at the last
// look is kept.
type meter struct {
	stack *stack.Stack
	began time.Time

	mu       sync.Mutex
	memory   map[string][]sample           // by role
	peak     map[string]int64              // bytes
	counters map[string]map[string]float64 // by process, then "queue outcome"
}

type sample struct {
	at    time.Duration
	bytes int64
}

func newMeter(s *stack.Stack) *meter {
	return &meter{stack: s, began: time.Now(), memory: map[string][]sample{}, peak: map[string]int64{}, counters: map[string]map[string]float64{}}
}

func (m *meter) run(ctx context.Context) {
	for ctx.Err() == nil {
		m.look(ctx)
		load.Pause(ctx, time.Second)
	}
}

func (m *meter) look(ctx context.Context) {
	for _, name := range m.stack.Names() {
		pid := m.stack.Pid(name)
		if pid == 0 {
			continue
		}
		now, err := proc.Memory(pid, "VmRSS")
		peak, err2 := proc.Memory(pid, "VmHWM")
		found := scrape(ctx, m.stack.AdminURL(name))
		m.mu.Lock()
		if err == nil && err2 == nil {
			m.memory[name] = append(m.memory[name], sample{time.Since(m.began), now})
			m.peak[name] = max(m.peak[name], peak)
		}
		if len(found) > 0 {
			m.counters[fmt.Sprint(name, " ", pid)] = found
		}
		m.mu.Unlock()
	}
}

// total sums an outcome over processes and those queues for which counts is true.
func (m *meter) total(outcome string, counts func(queue string) bool) (sum int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, counters := range m.counters {
		for key, n := range counters {
			if queue, what, _ := strings.Cut(key, " "); what == outcome && counts(queue) {
				sum += int(n)
			}
		}
	}
	return sum
}

func allQueues(string) bool { return true }

// ofSteps tells queues whose messages are steps of a video from others.
func ofSteps(queue string) bool {
	return !strings.HasPrefix(queue, "index") && !strings.HasPrefix(queue, "purge")
}

// quarters are the mean memory of a role in the first and last quarter of the
// time, over whatever processes it was then.
func (m *meter) quarters(name string, length time.Duration) (first, last int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mean := func(from, to time.Duration) int64 {
		var sum, n int64
		for _, s := range m.memory[name] {
			if s.at >= from && s.at < to {
				sum += s.bytes
				n++
			}
		}
		return sum / max(n, 1)
	}
	return mean(0, length/4), mean(length*3/4, length)
}

// warm is how long a run must be for its quarters to be compared. A shorter one
// compares roles that have just started with roles that have work.
const warm = 10 * time.Minute

// grows reports whether a role needs clearly more memory in the last quarter than
// in the first. A kill begins its memory anew, so what grows slowly shows only in
// a run that leaves it time between kills.
func grows(length time.Duration, first, last int64) bool {
	return length >= warm && first > 0 && last > first*3/2 && last-first > 16<<20
}

var scraper = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// scrape reads cutroom_messages_total as "queue outcome" → count.
func scrape(ctx context.Context, admin string) map[string]float64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return nil
	}
	res, err := scraper.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	found := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), "cutroom_messages_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		found[label(labels, "queue")+" "+label(labels, "outcome")] = n
	}
	return found
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
