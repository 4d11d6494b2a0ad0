package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Report is made once a day.
type Report struct{ Day string }

func (Report) Kind() string { return "report" }

// tick sends the report that is due. Every process calls it once a minute.
func tick(ctx context.Context, schedule *tablestore.Table, client *azq.Client, now time.Time) error {
	row, err := schedule.Get(ctx, "daily", "report")
	if err != nil || now.Before(row.Time("Next")) {
		return err
	}
	day := row.Time("Next").Format(time.DateOnly)
	if _, err := client.Send(ctx, Report{day}, azq.ID("report."+day)); err != nil {
		return err
	}
	row.Props["Next"] = row.Time("Next").AddDate(0, 0, 1)
	if _, err = schedule.Update(ctx, row, row.ETag); tablestore.Overtaken(err) {
		return nil // another process has sent it, too: under the same id
	}
	return err
}

// Five processes look at the same time, on two days.
func Example_schedule() {
	ctx, account := context.Background(), azuritetest.Example()
	schedule, made := openTable(account, "schedule"), openTable(account, "made")
	client := azq.Open(account, azq.Options{Pools: map[string]int{"default": 1}, Log: quiet})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Report]) error {
		_, err := made.Insert(ctx, tablestore.Entity{PartitionKey: "report", RowKey: job.Data.Day})
		if errors.Is(err, tablestore.ErrExists) {
			return nil
		}
		fmt.Println("the report of", job.Data.Day)
		return err
	})
	first := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	props := map[string]any{"Next": first}
	must(schedule.Insert(ctx, tablestore.Entity{PartitionKey: "daily", RowKey: "report", Props: props}))
	for _, now := range []time.Time{first.Add(-time.Minute), first.Add(time.Minute), first.AddDate(0, 0, 1)} {
		var processes sync.WaitGroup
		for range 5 {
			processes.Go(func() { check(tick(ctx, schedule, client, now)) })
		}
		processes.Wait()
	}
	work(client)
	// Unordered output:
	// the report of 2026-11-27
	// the report of 2026-11-28
}
