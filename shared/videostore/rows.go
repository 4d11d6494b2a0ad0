package videostore

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
)

// scanStepKey takes "STEP:00001:encode:00003" apart.
func scanStepKey(rowKey string) (generation int, step string, index int, err error) {
	parts := strings.Split(rowKey, ":")
	if len(parts) != 4 || parts[0] != "STEP" {
		return 0, "", 0, fmt.Errorf("row key %q is not a step", rowKey)
	}
	generation, err1 := strconv.Atoi(parts[1])
	index, err2 := strconv.Atoi(parts[3])
	if err := errors.Join(err1, err2); err != nil {
		return 0, "", 0, fmt.Errorf("row key %q: %w", rowKey, err)
	}
	return generation, parts[2], index, nil
}

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

func partKey(generation, first int) string {
	return fmt.Sprintf("PART:%05d:%s:%05d", generation, StepAudio, first)
}

// collect drains a query.
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

// isStale reports whether a conditional write met a row that had changed or gone.
func isStale(err error) bool {
	return errors.Is(err, tablestore.ErrChanged) || errors.Is(err, tablestore.ErrNotFound)
}

// now is the time as rows keep it: a table keeps 100 ns, JSON more, and both
// must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
