package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

type Letter struct {
	To       string
	Language string // since version 2
}

func (Letter) Kind() string { return "letter" }

// A letter of each version waits, and a worker of each version runs. The old one leaves the
// new letter to the new one.
func Example_changeFormat() {
	account := azuritetest.Example()
	old := azq.Open(account, azq.Options{DeferPause: time.Second, Log: quiet})
	azq.Handle(old, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Item.Version > 1 {
			fmt.Println("the old worker misread", job.Data.To)
		}
		return azq.Snooze(time.Second, "left to the new worker, for the example")
	})
	// snippet: change-format
	// Release 1: workers that read both versions.
	worker := azq.Open(account, azq.Options{Version: 2, Log: quiet})
	azq.Handle(worker, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Item.Version == 1 {
			job.Data.Language = "English" // what version 1 meant
		}
		fmt.Println("Dear", job.Data.To, "in", job.Data.Language)
		return nil
	})
	// Release 2, when no old worker runs: senders of version 2.
	stamp := func(next azq.Sender) azq.Sender {
		return func(ctx context.Context, out azq.Outgoing) error {
			out.Item.Version = 2
			return next(ctx, out)
		}
	}
	sender := azq.Open(account, azq.Options{SendMiddleware: []func(azq.Sender) azq.Sender{stamp}})
	// end snippet
	must(old.Send(context.Background(), Letter{To: "Ada"}))
	must(sender.Send(context.Background(), Letter{To: "Zoë", Language: "French"}))
	work(old, worker)
	// Unordered output:
	// Dear Ada in English
	// Dear Zoë in French
}
