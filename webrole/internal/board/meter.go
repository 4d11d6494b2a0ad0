package board

import (
	"sync"
	"time"
)

// Budget is how many storage requests per second a board may make, for any number of
// lookers. A board that was closed may make burst at once when it is opened, which
// is what a whole look takes.
const (
	Budget = 20
	burst  = 60
)

// meter counts storage requests and keeps them within the budget. It outlives
// readers: who opens and closes the board again and again gets no more.
type meter struct {
	mu    sync.Mutex
	left  float64
	at    time.Time
	asked int64
}

// refill adds what time has earned. The caller holds mu, or is alone.
func (m *meter) refill(now time.Time) {
	if m.at.IsZero() {
		m.left = burst
	} else {
		m.left = min(burst, m.left+Budget*now.Sub(m.at).Seconds())
	}
	m.at = now
}

// take reports whether one more request may be made, and counts it.
func (m *meter) take() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refill(time.Now())
	if m.left < 1 {
		return false
	}
	m.left--
	m.asked++
	return true
}

func (m *meter) total() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}
