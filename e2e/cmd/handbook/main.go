// Command handbook writes the quoted code, the drawings and the rendered pages of
// docs/patterns: `go generate ./e2e`.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cutroom/cutroom/e2e/handbook"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "handbook:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	return handbook.Write(ctx, root)
}
