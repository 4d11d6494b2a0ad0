package core

import "context"

// RunFromEnv is what Main does, but for signals and the end of the process.
func RunFromEnv[P any](ctx context.Context, product Product[P]) error {
	return runFromEnv(ctx, product)
}
