package videostore

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// scanStepKey takes "STEP:00001:encode:00003" and "CLIP:00001:000000310:000250" apart.
func scanStepKey(id video.ID, rowKey string) (StepKey, error) {
	key := StepKey{ID: id}
	parts := strings.Split(rowKey, ":")
	if len(parts) != 4 || parts[0] != "STEP" && parts[0] != "CLIP" {
		return key, fmt.Errorf("row key %q is not a step", rowKey)
	}
	var err1, err2, err3 error
	key.Generation, err1 = strconv.Atoi(parts[1])
	if parts[0] == "CLIP" {
		key.Step = StepClip
		key.Index, err2 = strconv.Atoi(parts[2])
		key.Frames, err3 = strconv.Atoi(parts[3])
	} else {
		key.Step = parts[2]
		key.Index, err2 = strconv.Atoi(parts[3])
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return key, fmt.Errorf("row key %q: %w", rowKey, err)
	}
	return key, nil
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
