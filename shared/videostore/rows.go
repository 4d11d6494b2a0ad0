package videostore

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

func partKey(key workflow.Key, first int) string {
	return fmt.Sprintf("PART:%05d:%s:%05d", key.Generation, key.Step, first)
}

// collect reads a query to its end.
func collect(rows iter.Seq2[tablestore.Entity, error]) ([]tablestore.Entity, error) {
	var all []tablestore.Entity
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// isStale reports whether a conditional write met a row that had changed, was gone, or was
// there.
func isStale(err error) bool {
	return errors.Is(err, tablestore.ErrChanged) || errors.Is(err, tablestore.ErrNotFound) || errors.Is(err, tablestore.ErrExists)
}

// now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
