package videostore

import (
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/workflow"
)

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

func partKey(key workflow.Key, first int) string {
	return fmt.Sprintf("PART:%05d:%s:%05d", key.Generation, key.Step, first)
}

// now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// written is the operation that writes a row over the version that was read; there was none if
// etag is empty.
func written(row tablestore.Entity, etag string) tablestore.Op {
	if etag == "" {
		return tablestore.Op{Kind: tablestore.OpInsert, Entity: row}
	}
	return tablestore.Op{Kind: tablestore.OpReplace, Entity: row, IfMatch: etag}
}
