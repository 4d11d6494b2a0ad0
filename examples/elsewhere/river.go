package elsewhere

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Encoder handles films that are rows of PostgreSQL.
type Encoder struct {
	river.WorkerDefaults[Film]
	Encode Encode
}

// Timeout is in the place of renewals: the work's context ends then.
func (Encoder) Timeout(*river.Job[Film]) time.Duration { return 4 * time.Hour }

// Work handles one film.
func (e Encoder) Work(ctx context.Context, job *river.Job[Film]) error {
	err := e.Encode(ctx, job.Args)
	if errors.Is(err, errBroken) {
		return river.JobCancel(err)
	}
	return err // tried again, and discarded after MaxAttempts
}

// Add writes a film and its job, or neither.
func Add(ctx context.Context, tx pgx.Tx, client *river.Client[pgx.Tx], f Film) error {
	_, err := tx.Exec(ctx, "INSERT INTO films (id) VALUES ($1)", f.ID)
	if err == nil {
		_, err = client.InsertTx(ctx, tx, f, nil)
	}
	return err // nil: commit
}
