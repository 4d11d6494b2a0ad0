// Command partitions runs a command with a storage account whose tables are
// behind the model of Azure's partition servers: `make test-partitions`.
//
//	scripts/gorun partitions -churn 500ms go test ./shared/videostore
//
// The command finds the account's connection string in CUTROOM_TEST_AZURITE,
// which the tests know, and that of the emulator itself in
// CUTROOM_TEST_AZURITE_CALM. At the end it prints what the model did.
//
// Next: e2e/partitions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/partitions"
	"github.com/cutroom/cutroom/shared/testkit/azurite"
)

func main() {
	cfg := partitions.Config{}
	flag.Uint64Var(&cfg.Seed, "seed", 1, "repeats the same choices")
	flag.Float64Var(&cfg.Scale, "scale", 1, "budgets are Azure's, divided by this")
	flag.DurationVar(&cfg.Churn, "churn", time.Second, "about once in this time some range splits and moves; 0: under load only")
	flag.DurationVar(&cfg.MoveTime, "move", time.Second, "how long a moving range is away")
	flag.Float64Var(&cfg.EmptyPages, "empty", 0.1, "share of queries that begin with an empty page")
	flag.Float64Var(&cfg.ShortPages, "short", 0.1, "share of queries that are cut short")
	flag.Parse()
	err := run(cfg, flag.Args())
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		os.Exit(max(1, failed.ExitCode()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "partitions:", err)
		os.Exit(1)
	}
}

func run(cfg partitions.Config, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("give a command to run, such as: go test ./shared/videostore")
	}
	emulator, err := azurite.Start(context.Background(), azurite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()
	proxy, err := partitions.Start(emulator.ConnectionString(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	fmt.Printf("tables behind %s\n%s\n", proxy.URL(), cfg)

	// The command gets Ctrl-C from the terminal by itself; we wait for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // what the user asked for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"CUTROOM_TEST_AZURITE="+proxy.ConnectionString(), "CUTROOM_TEST_AZURITE_CALM="+emulator.ConnectionString())
	err = cmd.Run()
	s := proxy.Stats()
	fmt.Printf("the model: %d requests served, %d refused, %d met a moving range, %d replies lost; %d splits, %d moves, %d merges; %d empty pages, %d short ones, %d ended with a range\n",
		s.Requests, s.Refused(), s.Unavailable, s.LostReplies, s.Splits, s.Moves, s.Merges, s.EmptyPages, s.ShortPages, s.RangeEnds)
	return err
}
