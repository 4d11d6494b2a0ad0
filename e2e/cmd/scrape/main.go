// Command scrape has a Prometheus scrape a stack in which videos become ready, fail and
// are given up, and asks every query of the dashboard, every rule and every metric of an
// alert. One that is empty is an error. `make test-deploy` runs it.
//
//	scripts/gorun scrape
package main

import (
	"context"
	"os"
	"time"

	"github.com/cutroom/cutroom/e2e/command"
	"github.com/cutroom/cutroom/e2e/observe"
)

func main() {
	command.Main("scrape", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
		defer cancel()
		return observe.Run(ctx, os.Stdout)
	})
}
