// Command handbook writes the quoted code, the drawings and the rendered pages of
// docs/patterns: `go generate ./e2e`.
package main

import (
	"context"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/handbook"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() { command.Main("handbook", run) }

func run(ctx context.Context) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	return handbook.Write(ctx, root)
}
