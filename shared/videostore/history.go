package videostore

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// Outcome is how an attempt ended.
type Outcome string

// The outcomes. An attempt is lost when its worker wrote no end: it died, froze or lost
// its lease. The next claim finds the attempt still running and cannot tell which.
const (
	OutcomeRunning  Outcome = "running"  // it has not ended
	OutcomeDone     Outcome = "done"     // its commit made the output count
	OutcomeFailed   Outcome = "failed"   // for good
	OutcomeRetry    Outcome = "retry"    // it failed, and the step is tried again
	OutcomeReleased Outcome = "released" // interrupted: a drain, a lease that ended, a dependency, or the step is no longer wanted
	OutcomeLost     Outcome = "lost"
)

// Attempt is one try of a step.
type Attempt struct {
	Number  int       `json:"n"` // from 1
	Worker  string    `json:"w,omitempty"`
	Queued  time.Time `json:"q,omitzero"` // since when the step waited to be claimed
	Started time.Time `json:"s"`
	// Ended is zero while the attempt runs. Of a lost one it is when the loss was
	// noticed, by the next claim: when it happened is unknown.
	Ended   time.Time `json:"e,omitzero"`
	Outcome Outcome   `json:"o"`
	Error   string    `json:"x,omitempty"`
	// Usage is nil when it is not known: of a lost attempt, whose worker took the
	// count with it.
	Usage *Usage `json:"u,omitempty"`
}

// Usage is what a worker counted while it worked on a step: see [UsageFunc].
type Usage struct {
	Requests map[azstorage.RequestKind]int `json:"r,omitempty"`
	Sent     int64                         `json:"out,omitempty"` // bytes to storage
	Received int64                         `json:"in,omitempty"`  // bytes from storage
	CPU      float64                       `json:"cpu,omitempty"` // seconds of ffmpeg and ffprobe
}

// Add adds what was spent elsewhere.
func (s *Usage) Add(more Usage) {
	if s.Requests == nil {
		s.Requests = map[azstorage.RequestKind]int{}
	}
	for kind, n := range more.Requests {
		s.Requests[kind] += n
	}
	s.Sent, s.Received, s.CPU = s.Sent+more.Sent, s.Received+more.Received, s.CPU+more.CPU
}

// UsageFunc says what an attempt has spent so far. A claim asks it before it writes the end
// of the attempt. What comes after that write cannot be in it.
type UsageFunc func() Usage

// History is what a step row keeps of the attempts that have ended, in order. It is
// written with the row and never on its own, so it costs no request.
type History struct {
	Attempts []Attempt `json:"a,omitempty"`
	// Compacted are attempts before those, too many to keep one by one.
	Compacted Compacted `json:"f,omitzero"`
}

// Compacted is the sum of attempts that are not kept one by one.
type Compacted struct {
	Attempts int   `json:"n"`
	Counted  int   `json:"c"` // how many of them are in Spent
	Usage    Usage `json:"u"`
}

// Bounds of a history. A view reads the rows of all steps, so each must stay small.
const (
	maxAttempts     = 20
	maxHistoryBytes = 4 << 10
	maxAttemptError = 160 // characters
)

// with returns the history with one attempt more, inside the bounds. The receiver stays
// as it is.
func (h History) with(a Attempt) History {
	if text := []rune(a.Error); len(text) > maxAttemptError {
		a.Error = string(text[:maxAttemptError-1]) + "…"
	}
	h.Attempts = append(slices.Clone(h.Attempts), a)
	h.Compacted.Usage.Requests = maps.Clone(h.Compacted.Usage.Requests)
	for len(h.Attempts) > maxAttempts || len(h.Attempts) > 1 && len(h.text()) > maxHistoryBytes {
		oldest := h.Attempts[0]
		h.Attempts = h.Attempts[1:]
		h.Compacted.Attempts++
		if oldest.Usage != nil {
			h.Compacted.Counted++
			h.Compacted.Usage.Add(*oldest.Usage)
		}
	}
	return h
}

// text is the history as the row keeps it; empty when there is none.
func (h History) text() string {
	if len(h.Attempts) == 0 {
		return ""
	}
	text, err := json.Marshal(h)
	if err != nil { // a number that JSON does not have: a row without history is better than none
		return ""
	}
	return string(text)
}

// readHistory reads the property of a row. What cannot be read is no error: the history
// is for people, and no step may fail because of it.
func readHistory(row tablestore.Entity) (h History) {
	if row.JSON("History", &h) != nil {
		return History{}
	}
	return h
}

// AllAttempts are the attempts that the row knows, in order, the one that runs last. Fewer
// than Attempts when the oldest were folded.
func (s Step) AllAttempts() []Attempt {
	tries := slices.Clone(s.History.Attempts)
	if s.State == StepRunning {
		tries = append(tries, s.newest())
	}
	return tries
}

// newest is the attempt that runs.
func (s Step) newest() Attempt {
	return Attempt{Number: s.Attempts, Worker: s.Worker, Queued: s.QueuedAt, Started: s.StartedAt, Outcome: OutcomeRunning}
}

// ended notes in the history how the attempt that runs ended.
func (s *Step) ended(outcome Outcome, at time.Time, cause error, spent *Usage) {
	a := s.newest()
	a.Outcome, a.Ended, a.Usage = outcome, at, spent
	if cause != nil {
		a.Error = cause.Error()
	}
	s.History = s.History.with(a)
}

// abandoned notes that the attempt that seems to run was lost.
func (s *Step) abandoned(noticed time.Time) {
	if s.State == StepRunning {
		s.ended(OutcomeLost, noticed, nil, nil)
	}
}

// exhausted is abandoned for a step that is not tried again: what looked like one of
// several tries was the last.
func (s *Step) exhausted(noticed time.Time) {
	s.abandoned(noticed)
	n := len(s.History.Attempts)
	if n == 0 || s.History.Attempts[n-1].Outcome != OutcomeRetry {
		return
	}
	s.History.Attempts = slices.Clone(s.History.Attempts)
	s.History.Attempts[n-1].Outcome = OutcomeFailed
}

// TotalUsage is what the step has cost as far as it was counted, and how many of its ended
// attempts are not in it.
func (s Step) TotalUsage() (sum Usage, notCounted int) {
	counted := s.History.Compacted.Counted
	sum.Add(s.History.Compacted.Usage)
	for _, a := range s.History.Attempts {
		if a.Usage != nil {
			counted++
			sum.Add(*a.Usage)
		}
	}
	ended := s.Attempts
	if s.State == StepRunning {
		ended--
	}
	return sum, ended - counted
}

// WaitingSince is since when a queued step waits to be claimed; zero when it does not
// wait.
func (s Step) WaitingSince() time.Time {
	if s.State != StepQueued {
		return time.Time{}
	}
	return s.QueuedAt
}
