package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Reminder is due at a time that may be further away than a message can be hidden.
type Reminder struct {
	To  string
	Due time.Time
}

func (Reminder) Kind() string { return "reminder" }

// Days are seconds here.
func Example_deliverLater() {
	ctx := context.Background()
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	const week = 2 * time.Second // for the example
	// snippet: deliver-later
	remind := func(r Reminder) error {
		_, err := client.Send(ctx, r, azq.ID("reminder."+r.To), azq.After(max(0, min(time.Until(r.Due), week))))
		return err
	}
	azq.Handle(client, func(_ context.Context, job *azq.Job[Reminder]) error {
		if left := time.Until(job.Data.Due); left > 0 {
			return azq.Snooze(min(left, week), "not due yet")
		}
		fmt.Println("a reminder to", job.Data.To, "in attempt", job.Attempt())
		return nil
	})
	// end snippet
	due := time.Now().Add(3 * time.Second)
	check(remind(Reminder{"Ada", due}))
	work(client)
	fmt.Println("early:", time.Now().Before(due))
	// Output:
	// a reminder to Ada in attempt 1
	// early: false
}
