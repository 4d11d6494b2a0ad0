package videostore

import (
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

// now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
