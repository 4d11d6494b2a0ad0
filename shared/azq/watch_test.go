package azq_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Three workers without work ask the service seldom, and one of them takes up what another
// process sends within a second. All queues are asleep a minute after the start.
func TestIdleWorkersAskSeldom(t *testing.T) {
	azuritetest.Slow(t, "waits for time to pass")
	t.Parallel()
	a := azuritetest.Account(t)
	specs := []azq.Spec{{Name: jobs, Kinds: []string{step}, Pool: light, Laned: true}}
	sender := azqtest.Open(t, a, specs...)
	began := make(chan string, 10)
	handler := azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
		began <- job.Item.ID
		return nil
	})
	ctx, counter := azstore.WithCounter(t.Context())
	ctx, stop := context.WithCancel(ctx)
	var ends []chan error
	for i := range 3 {
		worker := azq.Open(a, azq.Options{
			Queues: specs, Handlers: map[string]azq.Handler{step: handler}, Pools: map[string]int{light: 2},
			Worker: fmt.Sprint("w", i), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		end := make(chan error, 1)
		ends = append(ends, end)
		go func() { end <- worker.Run(ctx) }()
	}
	defer func() {
		stop()
		for _, end := range ends {
			if err := <-end; err != nil {
				t.Error(err)
			}
		}
	}()
	const span = 20 * time.Second
	wait := func(d time.Duration) { <-time.After(d) }
	wait(75 * time.Second)
	before, start := counter.Counts().Requests, time.Now()
	wait(span)
	after, took := counter.Counts().Requests, time.Since(start).Seconds()
	queue := after["queue.read"] + after["queue.write"] - before["queue.read"] - before["queue.write"]
	table := after["table.list"] + after["table.write"] - before["table.list"] - before["table.write"]
	t.Logf("in %.0f s %d requests to queues and %d to tables", took, queue, table)
	if float64(queue) > 1.25*took || float64(table) > 3.2*took {
		t.Errorf("%d requests to queues and %d to tables in %.0f s, want at most 1.25 and 3.2 a second", queue, table, took)
	}
	var all []time.Duration
	for i := range 7 {
		name, id := azq.LaneName(jobs, i%4), fmt.Sprint("item", i)
		sent := time.Now()
		send(t, sender, name, id)
		select {
		case got := <-began:
			all = append(all, time.Since(sent))
			if got != id {
				t.Errorf("%s was taken up, want %s", got, id)
			}
		case <-time.After(azuritetest.Patience(40 * time.Second)):
			t.Fatalf("%s was not taken up", id)
		}
	}
	slices.Sort(all)
	t.Logf("taken up after %v", all)
	if median := all[len(all)/2]; median > azuritetest.Patience(time.Second) {
		t.Errorf("items were taken up after %v, want within a second", all)
	}
}
