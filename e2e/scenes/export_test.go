package scenes

import (
	"context"
	"maps"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Names are the scenes that have a program, sorted.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Granularity is what a scene says of Cutroom's tables.
var Granularity = granularity

// RunProgram plays a program that is not listed.
func RunProgram(ctx context.Context, cfg azstore.Config, program func(context.Context, *Stage), story []Line, tell func(Event)) error {
	return run(ctx, cfg, func(s *Stage) { program(s.ctx, s) }, story, nil, tell)
}
