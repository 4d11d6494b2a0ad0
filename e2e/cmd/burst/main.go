// Command burst uploads 60 videos at once to workers that come and go with the queues, and
// to fixed fleets of 1 and 4, and draws what happened. It needs root, for control groups.
//
//	make burst
//	scripts/gorun burst -write     # docs/burst.svg; the table is printed
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cutroom/cutroom/e2e/bench"
	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/proc"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() { command.Main("burst", run) }

func run(ctx context.Context) error {
	write := flag.Bool("write", false, "write docs/burst.svg instead of .run/burst.svg")
	flag.Parse()
	root, err := stack.Root()
	if err != nil {
		return err
	}
	bin, cache := filepath.Join(root, ".run", "bench", "bin"), filepath.Join(root, ".run", "bench")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if err := stack.Build(ctx, bin); err != nil {
		return err
	}
	note := bench.BurstNote(proc.Load())
	begun := time.Now()
	fleets, err := bench.Burst(ctx, bin, cache, func(text string) {
		fmt.Fprintf(os.Stderr, "%4.0f s  workers: %s\n", time.Since(begun).Seconds(), text)
	})
	if err != nil {
		return err
	}
	path := filepath.Join(root, ".run", "burst.svg")
	if *write {
		path = filepath.Join(root, "docs", "burst.svg")
	}
	if err := os.WriteFile(path, bench.BurstPlot(fleets, note), 0o644); err != nil { //nolint:gosec // documentation
		return fmt.Errorf("write the plot: %w", err)
	}
	fmt.Printf("%s\n%s\n%s\n", note, bench.BurstReport(fleets).Markdown(), path)
	return fleets[0].Judge()
}
