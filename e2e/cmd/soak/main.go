// Command soak runs the whole system under load and faults, prints a page about
// it, also to .run/soak-<seed>.md, and fails when something is wrong. `make soak`
// runs it.
//
//	make soak SOAKTIME=20m SEED=7
//	scripts/gorun soak -time 2m -seed 7 -logs /some/folder
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/mutations"
	"github.com/cutroom/cutroom/e2e/soak"
	"github.com/cutroom/cutroom/e2e/stack"
)

func main() { command.Main("soak", run) }

func run(ctx context.Context) error {
	o := soak.Options{Log: os.Stderr}
	flag.DurationVar(&o.Duration, "time", 30*time.Minute, "how long there are load and faults")
	flag.Uint64Var(&o.Seed, "seed", 0, "decides what happens; 0: one is drawn")
	flag.StringVar(&o.Bin, "bin", "", "folder with roles that are built already")
	flag.DurationVar(&o.Visibility, "visibility", 0, "lease of every message; longer for a busy machine (default 8s)")
	flag.DurationVar(&o.Settle, "settle", 0, "how long nothing may change on the way to rest (default 6m)")
	logs := flag.String("logs", "", "folder for the logs of the roles when something is wrong")
	mistakes := flag.Bool("mutations", false, "build the roles with mistakes instead, one after the other, and fail when one is not found")
	only := flag.String("mutation", "", "with -mutations: only those whose name contains this")
	flag.Parse()
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	if *mistakes {
		return mutate(ctx, o, *only)
	}
	root, err := stack.Root()
	if err != nil {
		return err
	}
	report, soakErr := soak.Run(ctx, o)
	if report == nil {
		return soakErr
	}
	fmt.Println(report.Page())
	page := filepath.Join(root, ".run", fmt.Sprintf("soak-%d.md", o.Seed))
	if err := errors.Join(os.MkdirAll(filepath.Dir(page), 0o700), os.WriteFile(page, []byte(report.Page()), 0o600)); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	fmt.Fprintln(os.Stderr, "soak: this page is also in", page)
	if *logs != "" {
		for name, text := range report.Logs {
			if err := os.WriteFile(filepath.Join(*logs, name+".log"), []byte(text), 0o600); err != nil {
				return fmt.Errorf("write logs: %w", err)
			}
		}
	}
	if n := len(report.Findings); n > 0 {
		return errors.Join(soakErr, fmt.Errorf("%d findings; again: make soak SOAKTIME=%v SEED=%d", n, o.Duration, o.Seed))
	}
	return soakErr
}

// mutate tries every mutation that a soak must find with the same load.
func mutate(ctx context.Context, o soak.Options, only string) error {
	list, err := mutations.All()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range list {
		if len(m.Soak) == 0 || !strings.Contains(m.Name, only) {
			continue
		}
		err := soak.Mutate(ctx, m, o)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
