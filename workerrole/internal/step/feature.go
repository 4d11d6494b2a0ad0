package step

import (
	"context"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/upkeep"
	"github.com/cutroom/cutroom/shared/indexrows"
	"github.com/cutroom/cutroom/workerrole/internal/pipeline"
)

// Feature is a part of the worker role that comes off with its folder, its line in main and
// those of its steps in package workflow. Members may be missing.
type Feature struct {
	Tables []string                                                  // that it uses
	Steps  map[string]pipeline.Step                                  // by the names of their declarations
	Duties []upkeep.Duty                                             // of the leader
	Index  func(context.Context, engine.ID, indexrows.Current) error // makes its rows follow META; safe to repeat
	Purge  func(context.Context, engine.ID) error                    // removes what it has of a video; safe to repeat
}

// Tables are those of all features.
func Tables(features []Feature) (tables []string) {
	for _, f := range features {
		tables = append(tables, f.Tables...)
	}
	return tables
}
