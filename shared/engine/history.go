package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
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
	CPU      float64                     `json:"cpu,omitempty"` // seconds of the programs that the step ran
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

// history is the property History of a step row.
type history struct {
	Attempts []Attempt `json:"a,omitempty"` // that have ended, in order
}

// Bounds of a history. A view reads the rows of all steps, so each must stay small.
const (
	maxHistoryBytes = 4 << 10
	maxAttemptError = 160 // characters
)

// history is what the row keeps. What cannot be read is no error: it is for people, and no
// step may fail because of it.
func (r Run) history() []Attempt {
	var h history
	if json.Unmarshal([]byte(r.History), &h) != nil {
		return nil
	}
	return h.Attempts
}

// AllAttempts are the attempts that the row knows, in order, the one that runs last. Fewer
// than Attempts when there were too many to keep.
func (r Run) AllAttempts() []Attempt {
	all := r.history()
	switch n := len(all); {
	case r.State == RunRunning:
		all = append(all, r.newest())
	case r.State == RunFailed && n > 0 && all[n-1].Outcome == OutcomeRetry: // it was the last that there may be
		all[n-1].Outcome = OutcomeFailed
	}
	return all
}

func (r Run) newest() Attempt {
	return Attempt{Number: r.Attempts, Worker: r.Worker, Queued: r.QueuedAt, Started: r.StartedAt, Outcome: OutcomeRunning}
}

func (r *Run) ended(outcome Outcome, at time.Time, cause error, spent *Usage) {
	a := r.newest()
	a.Outcome, a.Ended, a.Usage = outcome, at, spent
	if cause != nil {
		a.Error = azstore.Storable(cause.Error(), maxAttemptError)
	}
	all := append(r.history(), a)
	text, _ := json.Marshal(history{all}) // nothing, for a number that JSON does not have: better than no row
	for len(all) > 1 && len(text) > maxHistoryBytes {
		all = all[1:]
		text, _ = json.Marshal(history{all})
	}
	r.History = string(text)
}

// abandoned notes that the loss of the attempt that seems to run was noticed.
func (r *Run) abandoned(at time.Time) {
	if r.State == RunRunning {
		r.ended(OutcomeLost, at, nil, nil)
	}
}

// TotalUsage is what the step has cost as far as it was counted, and how many of its ended
// attempts are not in it: the lost ones, and those before the first that is kept.
func (r Run) TotalUsage() (sum Usage, notCounted int) {
	notCounted = r.Attempts
	if r.State == RunRunning {
		notCounted--
	}
	for _, a := range r.history() {
		if a.Usage != nil {
			notCounted--
			sum.Add(*a.Usage)
		}
	}
	return sum, notCounted
}

// Observer is told what this process has committed, for metrics: once, or not at all if the
// process dies before the call. The functions must be quick and safe for concurrent use; each
// may be nil.
type Observer[V, P any] struct {
	// Subject is told of every change of META by an edit or by the end of a step.
	Subject func(before, after V)
	// Attempt is told of every attempt whose end was written into its step's row, of a lost
	// one by the next claim, and by package runner of those at steps without rows. The plan is
	// empty where it was not read.
	Attempt func(key Key, plan P, a Attempt)
}

func (s *Store[V, P]) notifySubject(before, after V) {
	if s.Observer.Subject != nil && !metaOf(&before).UpdatedAt.Equal(metaOf(&after).UpdatedAt) {
		s.Observer.Subject(before, after)
	}
}

// notifyAttempt tells of the attempt whose end is in the history of after and not in that
// of before.
func (s *Store[V, P]) notifyAttempt(before, after Run, plan P) {
	if s.Observer.Attempt == nil {
		return
	}
	was, is := before.history(), after.history()
	if n, m := len(is), len(was); n > 0 && (m == 0 || was[m-1].Number < is[n-1].Number) {
		s.Observer.Attempt(after.Key, plan, is[n-1])
	}
}

// RunState is the state of a run.
type RunState string

// A run of a plan has no row until it is first claimed.
const (
	RunQueued  RunState = "queued"
	RunRunning RunState = "running"
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"
)

// Run is the row of one run of a step. The timeline that users see has a line for each.
type Run struct {
	Key   Key `row:"-"`
	State RunState

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
	Error      *Failure        // of the last failed attempt
	Output     json.RawMessage // of the attempt that committed
	History    string          // of the attempts that have ended, as JSON: see AllAttempts

	// WrittenAt is when the row was last written, by this machine's clock.
	WrittenAt time.Time `row:"-"`

	etag string
}

// Ended reports whether nothing more is to be done for a step: the run is committed, or it
// failed alone.
func (r Run) Ended(step Step) bool {
	return r.State == RunDone || r.State == RunFailed && step.IsOptional()
}

func (r Run) row() tablestore.Entity {
	r.Error = stored(r.Error)
	return tablestore.Entity{PartitionKey: string(r.Key.ID), RowKey: r.Key.RowKey(), Props: tablestore.Props(r)}
}

// maxDetail is how much of a failure's text is kept, in UTF-16 units.
const maxDetail = 2000

// stored is a failure as rows hold it: see azstore.Storable.
func stored(failure *Failure) *Failure {
	if failure == nil {
		return nil
	}
	return &Failure{Code: failure.Code, Detail: azstore.Storable(failure.Detail, maxDetail)}
}

// ErrNoRun says that a run has no row: it was neither claimed nor requested.
var ErrNoRun = errors.New("run has no row")

// ReadRun reads the row of a run, or returns one with its key alone and ErrNoRun: a point read.
func (s *Store[V, P]) ReadRun(ctx context.Context, key Key) (Run, error) {
	run, err := read(ctx, s.subjects, key.ID, key.RowKey(), ErrNoRun, readRun)
	run.Key = key
	return run, err
}

func readRun(row tablestore.Entity) (Run, error) {
	key, err := ParseRowKey(ID(row.PartitionKey), row.RowKey)
	if err != nil {
		return Run{}, err
	}
	s := Run{Key: key, WrittenAt: row.Timestamp, etag: row.ETag}
	if err := row.Struct(&s); err != nil {
		return Run{}, err
	}
	switch s.State {
	case RunQueued, RunRunning, RunDone, RunFailed:
		return s, nil
	}
	return Run{}, fmt.Errorf("unknown state %q of %s", s.State, key) // of a later release: neither claimed nor shown
}

// OutputOf decodes what the attempt made that was done last; nil when none was.
func OutputOf[T any](s Run) (*T, error) {
	if len(s.Output) == 0 {
		return nil, nil
	}
	out := new(T)
	if err := json.Unmarshal(s.Output, out); err != nil {
		return nil, fmt.Errorf("decode output of %s: %w", s.Key, err)
	}
	return out, nil
}
