package enginetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// workerVariable makes the test binary a worker: it holds an order as JSON.
const workerVariable = "CUTROOM_TEST_SUMS_WORKER"

// order says what a worker process does.
type order struct {
	Name, Connection, Prefix, Scratch string
	Visibility                        time.Duration
	Upkeep, Old                       bool
	// Point, if not empty, is where the worker waits, once, for a byte on its standard input.
	Point string
	// Slow is how long a step takes at most, and Flaky how many of a hundred fail.
	Slow  time.Duration
	Flaky int
	// Told is a file to which every commit is written.
	Told string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		var o order
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			err = o.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	// The tests wait for leases to end most of the time.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	azuritetest.Main(m)
}

// run is a worker process, until SIGTERM.
func (o order) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	goOn := make(chan struct{})
	go func() {
		in := bufio.NewReader(os.Stdin)
		for {
			if _, err := in.ReadByte(); err != nil {
				os.Exit(1) // the test is gone
			}
			close(goOn)
		}
	}()
	account, err := azstore.Open(azstore.Config{ConnectionString: o.Connection, Prefix: o.Prefix})
	if err != nil {
		return err
	}
	told, err := os.OpenFile(o.Told, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var waited atomic.Bool
	return enginetest.Worker{
		Account: account, Name: o.Name, Scratch: o.Scratch, Visibility: o.Visibility, Upkeep: o.Upkeep, Old: o.Old,
		Log: slog.New(slog.DiscardHandler),
		At: func(point string) {
			if point == o.Point && waited.CompareAndSwap(false, true) {
				fmt.Println("at", point)
				<-goOn
			}
		},
		Before: o.before,
		Told: func(key engine.Key, a engine.Attempt) {
			if a.Outcome == engine.OutcomeDone {
				_, _ = fmt.Fprintln(told, key.ItemID()) // one write, which is appended as a whole
			}
		},
	}.Run(ctx)
}

func (o order) before(ctx context.Context) error {
	if o.Slow > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rand.N(o.Slow)):
		}
	}
	if rand.IntN(100) < o.Flaky {
		return errors.New("no luck")
	}
	return nil
}
