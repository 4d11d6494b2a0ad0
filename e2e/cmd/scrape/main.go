// Command scrape has a Prometheus scrape a stack in which videos become ready, fail and
// are given up, and asks every query of the dashboard, every rule and every metric of an
// alert. One that is empty is an error. `make test-deploy` runs it.
//
//	scripts/gorun scrape
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/observe"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	err := observe.Run(ctx, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scrape:", err)
		os.Exit(1)
	}
}
