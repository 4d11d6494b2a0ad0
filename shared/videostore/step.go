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
	// Read is what the attempt that committed read of an upload that was still going on.
	Read string

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
