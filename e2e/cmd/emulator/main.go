// Command emulator runs a command with one storage emulator for all that the command
// starts: the packages of `make check` and `make test` share it instead of starting one each.
//
//	scripts/gorun emulator go test ./shared/...
//
// The command finds the connection string in CUTROOM_TEST_AZURITE, which the tests know.
//
// Next: shared/testkit/azuritetest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/cutroom/cutroom/shared/testkit/azurite"
)

func main() {
	err := run(os.Args[1:])
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		os.Exit(max(1, failed.ExitCode()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emulator:", err)
		os.Exit(1)
	}
}

func run(command []string) (err error) {
	if len(command) == 0 {
		return errors.New("give a command to run, such as: go test ./shared/videostore")
	}
	emulator, err := azurite.Start(context.Background(), azurite.Options{InMemory: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emulator.Stop()) }()

	// The command gets Ctrl-C from the terminal by itself; we wait for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // what the user asked for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CUTROOM_TEST_AZURITE="+emulator.ConnectionString())
	return cmd.Run()
}
