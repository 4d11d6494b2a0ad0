package scenes

import (
	"context"
	"maps"
	"slices"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Names are the scenes that have a program, sorted.
func Names() []string { return slices.Sorted(maps.Keys(plays)) }

// Granularity is what a scene says of Cutroom's tables.
var Granularity = granularity

// RunProgram plays a program that is not listed.
func RunProgram(ctx context.Context, cfg azstorage.Config, program func(context.Context, *Stage) error, tell func(Event)) error {
	return run(ctx, cfg, program, nil, tell)
}
