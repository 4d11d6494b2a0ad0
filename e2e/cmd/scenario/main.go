// Command scenario plays the scene of the 2008 paper that explains queues (paper
// row Q11): two producers, two consumers, one of which is killed while it holds
// a message. It uses the account that AZURE_STORAGE_CONNECTION_STRING or
// AZURE_STORAGE_ACCOUNT names; without either it starts an emulator of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cutroom/cutroom/e2e/scenario"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azurite"
)

func main() {
	scenario.MaybeConsumer()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	cfg, err := azstorage.ConfigFromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if os.Getenv("AZURE_STORAGE_CONNECTION_STRING") == "" && os.Getenv("AZURE_STORAGE_ACCOUNT") == "" {
		server, startErr := azurite.Start(ctx, azurite.Options{})
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		cfg.ConnectionString = server.ConnectionString()
	}
	_, err = scenario.Run(ctx, os.Stdout, cfg)
	return err
}
