// Command emulator runs a command with one storage emulator for all that the command
// starts: the packages of `make check` and `make test` share it instead of starting one each.
//
//	scripts/gorun emulator go test ./shared/...
//	scripts/gorun emulator -partitions -churn 500ms go test ./shared/videostore
//
// The command finds the connection string in AZURITE_TEST, which the tests know.
// With -partitions the tables are behind the model of Azure's partition servers (`make
// test-partitions`), and AZURITE_TEST_CALM is the emulator itself; at the end it
// prints what the model did.
//
// Next: shared/azstore/azuritetest, e2e/partitions.
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
	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

func main() {
	cfg := partitions.Config{}
	modelled := flag.Bool("partitions", false, "put the tables behind a model of partition servers, which the other flags describe")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "repeats the same choices")
	flag.Float64Var(&cfg.Scale, "scale", 1, "budgets are Azure's, divided by this")
	flag.DurationVar(&cfg.Churn, "churn", time.Second, "about once in this time some range splits and moves; 0: under load only")
	flag.DurationVar(&cfg.MoveTime, "move", time.Second, "how long a moving range is away")
	flag.Float64Var(&cfg.EmptyPages, "empty", 0.1, "share of queries that begin with an empty page")
	flag.Float64Var(&cfg.ShortPages, "short", 0.1, "share of queries that are cut short")
	flag.Parse()
	var err error
	if *modelled {
		err = behindModel(cfg, flag.Args())
	} else {
		err = withEmulator(azurite.Options{InMemory: true}, func(connection string) error {
			return run(flag.Args(), "AZURITE_TEST="+connection)
		})
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		os.Exit(max(1, failed.ExitCode()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", err)
		os.Exit(1)
	}
}

func withEmulator(o azurite.Options, use func(connection string) error) (err error) {
	emulator, err := azurite.Start(context.Background(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()
	return use(emulator.ConnectionString())
}

func behindModel(cfg partitions.Config, command []string) error {
	return withEmulator(azurite.Options{}, func(connection string) error {
		proxy, err := partitions.Start(connection, cfg)
		if err != nil {
			return err
		}
		defer proxy.Close()
		fmt.Println(cfg)
		err = run(command, "AZURITE_TEST="+proxy.ConnectionString(), "AZURITE_TEST_CALM="+connection)
		s := proxy.Stats()
		fmt.Printf("the model: %d requests served, %d refused, %d met a moving range, %d replies lost; %d splits, %d moves, %d merges; %d empty pages, %d short ones, %d ended with a range\n",
			s.Requests, s.Refused(), s.Unavailable, s.LostReplies, s.Splits, s.Moves, s.Merges, s.EmptyPages, s.ShortPages, s.RangeEnds)
		return err
	})
}

// run runs a command, which gets Ctrl-C from the terminal by itself, and waits for it.
func run(command []string, env ...string) error {
	if len(command) == 0 {
		return errors.New("give a command to run, such as: go test ./shared/videostore")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // what the user asked for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	return cmd.Run()
}
