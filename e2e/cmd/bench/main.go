// Command bench measures Cutroom against the best that this machine can do
// without it, and prints ratios. `make bench` runs it.
//
//	make bench
//	scripts/gorun bench -only pipeline,playable -quick
//	scripts/gorun bench -only uploading -megabytes 500
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cutroom/cutroom/e2e/bench"
	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() { command.Main("bench", run) }

func run(ctx context.Context) error {
	var names []string
	for _, s := range bench.Sections {
		names = append(names, s.Name)
	}
	o := bench.Options{Log: os.Stderr}
	only := flag.String("only", "", "sections to run, with commas between them: "+strings.Join(names, ", "))
	flag.BoolVar(&o.Quick, "quick", false, "smaller and shorter: for a look, not for numbers to keep")
	flag.IntVar(&o.Runs, "runs", 0, "how often each side is measured (default 2)")
	flag.IntVar(&o.Megabytes, "megabytes", 0, "size of the films of the section uploading (default 60)")
	kinds := flag.String("kinds", "", "kinds of film of that section, with commas between them, such as webm,front.mp4 (default all)")
	write := flag.Bool("write", false, "write docs/benchmarks.md, too")
	flag.Parse()
	if *only != "" {
		o.Sections = strings.Split(*only, ",")
	}
	if *kinds != "" {
		o.Kinds = strings.Split(*kinds, ",")
	}
	report, err := bench.Run(ctx, o, os.Stdout)
	if err != nil || !*write {
		return err
	}
	root, err := stack.Root()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "docs", "benchmarks.md"), []byte(report.Markdown()), 0o644); err != nil { //nolint:gosec // documentation
		return fmt.Errorf("write the benchmarks page: %w", err)
	}
	return nil
}
