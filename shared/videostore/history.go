package videostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
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

// Usage is what a worker counted while it worked on a step.
type Usage struct {
	Requests map[azstore.RequestKind]int `json:"r,omitempty"`
	Sent     int64                       `json:"out,omitempty"` // bytes to storage
	Received int64                       `json:"in,omitempty"`  // bytes from storage
	CPU      float64                     `json:"cpu,omitempty"` // seconds of ffmpeg and ffprobe
}

// Add adds what was spent elsewhere.
func (s *Usage) Add(more Usage) {
	if s.Requests == nil {
		s.Requests = map[azstore.RequestKind]int{}
	}
	for kind, n := range more.Requests {
		if n > 0 {
			s.Requests[kind] += n
		}
	}
	s.Sent, s.Received, s.CPU = s.Sent+more.Sent, s.Received+more.Received, s.CPU+more.CPU
}

// history is the property History of a step row: the attempts that have ended.
type history struct {
	Attempts []Attempt `json:"a,omitempty"` // in order
	// Counted and Usage are of attempts before those, too many to keep one by one.
	Counted int   `json:"c,omitempty"` // how many are in Usage
	Usage   Usage `json:"u,omitzero"`
}

// Bounds of a history. A view reads the rows of all steps, so each must stay small.
const (
	maxAttempts     = 20
	maxHistoryBytes = 4 << 10
	maxAttemptError = 160 // characters
)

// history is what the row keeps. What cannot be read is no error: it is for people, and no
// step may fail because of it.
func (s Step) history() (h history) {
	if json.Unmarshal([]byte(s.History), &h) != nil {
		return history{}
	}
	return h
}

// keep sets the history, inside its bounds.
func (s *Step) keep(h history) {
	text, _ := json.Marshal(h) // nothing, for a number that JSON does not have: better than no row
	for len(h.Attempts) > maxAttempts || len(h.Attempts) > 1 && len(text) > maxHistoryBytes {
		if oldest := h.Attempts[0].Usage; oldest != nil {
			h.Counted++
			h.Usage.Add(*oldest)
		}
		h.Attempts = h.Attempts[1:]
		text, _ = json.Marshal(h)
	}
	s.History = string(text)
}

// AllAttempts are the attempts that the row knows, in order, the one that runs last. Fewer
// than Attempts when there were too many to keep.
func (s Step) AllAttempts() []Attempt {
	all := s.history().Attempts
	if s.State == StepRunning {
		all = append(all, s.newest())
	}
	return all
}

func (s Step) newest() Attempt {
	return Attempt{Number: s.Attempts, Worker: s.Worker, Queued: s.QueuedAt, Started: s.StartedAt, Outcome: OutcomeRunning}
}

func (s *Step) ended(outcome Outcome, at time.Time, cause error, spent *Usage) {
	a := s.newest()
	a.Outcome, a.Ended, a.Usage = outcome, at, spent
	if cause != nil {
		a.Error = azstore.Storable(cause.Error(), maxAttemptError)
	}
	h := s.history()
	h.Attempts = append(h.Attempts, a)
	s.keep(h)
}

// abandoned notes that the loss of the attempt that seems to run was noticed.
func (s *Step) abandoned(at time.Time) {
	if s.State == StepRunning {
		s.ended(OutcomeLost, at, nil, nil)
	}
}

// exhausted notes that the latest try was the last.
func (s *Step) exhausted() {
	s.abandoned(now())
	h := s.history()
	if n := len(h.Attempts); n > 0 && h.Attempts[n-1].Outcome == OutcomeRetry {
		h.Attempts[n-1].Outcome = OutcomeFailed
		s.keep(h)
	}
}

// TotalUsage is what the step has cost as far as it was counted, and how many of its ended
// attempts are not in it.
func (s Step) TotalUsage() (sum Usage, notCounted int) {
	h := s.history()
	counted := h.Counted
	sum.Add(h.Usage)
	for _, a := range h.Attempts {
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

// Observer is told what this process has committed, for metrics: once, or not at all if the
// process dies before the call. The functions must be quick and safe for concurrent use; each
// may be nil.
type Observer struct {
	// Video is told of every change of META by an edit or by the end of a step.
	Video func(before, after video.Video)
	// Attempt is told of every attempt whose end was written into its step's row: of a lost
	// one by the next claim. The plan is empty where it was not read.
	Attempt func(key workflow.Key, plan video.Plan, a Attempt)
}

// Observe sets the observer. Call it before the store is used.
func (s *Store) Observe(o Observer) { s.observer = o }

func (s *Store) notifyVideo(before, after video.Video) {
	if s.observer.Video != nil && !before.UpdatedAt.Equal(after.UpdatedAt) {
		s.observer.Video(before, after)
	}
}

// notifyAttempt tells of the attempt whose end is in the history of after and not in that
// of before.
func (s *Store) notifyAttempt(before, after Step, plan video.Plan) {
	if s.observer.Attempt == nil {
		return
	}
	was, is := before.history().Attempts, after.history().Attempts
	if n, m := len(is), len(was); n > 0 && (m == 0 || was[m-1].Number < is[n-1].Number) {
		s.observer.Attempt(after.Key, plan, is[n-1])
	}
}

// StepState is the state of a step row.
type StepState string

// A step of a plan has no row until it is first claimed.
const (
	StepQueued  StepState = "queued"
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// Step is one step row. The timeline that users see has a line for each.
type Step struct {
	Key   workflow.Key `row:"-"`
	State StepState

	// Attempt is the random id of the attempt that owns the row: the fencing token.
	Attempt string
	// OwnerMessageID is the id of the message that brought the step. When it is delivered again
	// its earlier lease must have ended, so that delivery may claim a running step at once.
	OwnerMessageID string
	Attempts       int
	Worker         string

	// Input is the blob in container "sources" that came with the request, if one did.
	Input string

	CreatedAt  time.Time // when it was requested; on request only
	QueuedAt   time.Time // since when it waits, or waited for its newest attempt
	StartedAt  time.Time
	FinishedAt time.Time
	Error      *video.Failure  // of the last failed attempt
	Output     json.RawMessage // of the attempt that committed
	History    string          // of the attempts that have ended, as JSON: see AllAttempts

	// WrittenAt is when the row was last written, by this machine's clock.
	WrittenAt time.Time `row:"-"`

	etag string
}

// Ended reports whether nothing more is to be done: the step is committed, or it failed alone.
func (s Step) Ended() bool {
	return s.State == StepDone || s.State == StepFailed && s.Key.Declared().IsOptional()
}

func (s Step) row() tablestore.Entity {
	s.Error = stored(s.Error)
	return tablestore.Entity{PartitionKey: string(s.Key.ID), RowKey: s.Key.RowKey(), Props: tablestore.Props(s)}
}

// maxDetail is how much of a failure's text is kept, in UTF-16 units.
const maxDetail = 2000

// stored is a failure as rows hold it: see azstore.Storable.
func stored(failure *video.Failure) *video.Failure {
	if failure == nil {
		return nil
	}
	return &video.Failure{Code: failure.Code, Detail: azstore.Storable(failure.Detail, maxDetail)}
}

// errNoStep says that a step has no row: it was neither claimed nor requested.
var errNoStep = errors.New("step has no row")

// step reads the row of a step, or returns one with its key alone and errNoStep.
func (s *Store) step(ctx context.Context, key workflow.Key) (Step, error) {
	step, err := read(ctx, s, key.ID, key.RowKey(), errNoStep, readStep)
	step.Key = key
	return step, err
}

func readStep(row tablestore.Entity) (Step, error) {
	key, err := workflow.ParseRowKey(video.ID(row.PartitionKey), row.RowKey)
	if err != nil {
		return Step{}, err
	}
	s := Step{Key: key, WrittenAt: row.Timestamp, etag: row.ETag}
	if err := row.Struct(&s); err != nil {
		return Step{}, err
	}
	switch s.State {
	case StepQueued, StepRunning, StepDone, StepFailed:
		return s, nil
	}
	return Step{}, fmt.Errorf("unknown state %q of %s", s.State, key) // of a later release: neither claimed nor shown
}

// OutputOf decodes what the attempt made that was done last; nil when none was.
func OutputOf[T any](s Step) (*T, error) {
	if len(s.Output) == 0 {
		return nil, nil
	}
	out := new(T)
	if err := json.Unmarshal(s.Output, out); err != nil {
		return nil, fmt.Errorf("decode output of %s: %w", s.Key, err)
	}
	return out, nil
}
