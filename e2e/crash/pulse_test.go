package crash_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// pulse asks the emulator again and again and remembers how long it was away.
// A lease cannot be renewed while storage does not answer, so what these tests say about
// time and about attempts holds only for a machine that has time for us.
type pulse struct {
	mu     sync.Mutex
	stalls []stall
}

type stall struct {
	until  time.Time
	length time.Duration
}

// beat is how often the emulator is asked, and the least that counts as a stall.
const beat = 250 * time.Millisecond

// feel asks until the process ends.
func (p *pulse) feel(url string) {
	client := &http.Client{Timeout: time.Minute}
	for {
		start := time.Now()
		if res, err := client.Get(url); err == nil { // a refusal is an answer
			_ = res.Body.Close()
		}
		now := time.Now()
		if took := now.Sub(start); took > beat {
			p.mu.Lock()
			p.stalls = append(p.stalls, stall{until: now, length: took})
			p.mu.Unlock()
		}
		time.Sleep(beat)
		// If the sleep took long, this process did not get the processor.
		if late := time.Since(now) - beat; late > beat {
			p.mu.Lock()
			p.stalls = append(p.stalls, stall{until: time.Now(), length: late})
			p.mu.Unlock()
		}
	}
}

// worst is the longest stall since a time.
func (p *pulse) worst(since time.Time) (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stalls {
		if s.until.After(since) {
			worst = max(worst, s.length)
		}
	}
	return worst
}

// disturbed reports whether a renewal may have failed since a time because the
// machine was busy with other things, or because a partition moved: promises about
// time are for a service at rest.
func (l *lane) disturbed(since time.Time) bool {
	return os.Getenv(azuritetest.CalmVariable) != "" || world.pulse.worst(since) > l.visibility/8
}

// hold fails the test for each problem, unless the machine is to blame.
func (l *lane) hold(since time.Time, problems []string) {
	l.t.Helper()
	for _, problem := range problems {
		if l.disturbed(since) {
			l.t.Logf("not held against us, for the machine stood still for %v: %s", world.pulse.worst(since), problem)
		} else {
			l.t.Error(problem)
		}
	}
}

// soon is a problem when something took longer than it may on a machine at rest.
func soon(what string, took, limit time.Duration) []string {
	if took <= azuritetest.Patience(limit) {
		return nil
	}
	return []string{fmt.Sprintf("%s %v later, want at most %v", what, took.Round(time.Millisecond), limit)}
}
