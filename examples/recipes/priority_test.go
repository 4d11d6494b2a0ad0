package recipes

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

type Newsletter struct{ Month string }

func (Newsletter) Kind() string { return "newsletter" }

type Reset struct{ To string }

func (Reset) Kind() string { return "reset" }

// A newsletter holds the only ordinary slot until a password reset has gone out.
func Example_priority() {
	ctx, sent := context.Background(), make(chan struct{})
	// snippet: priority
	client := azq.Open(azuritetest.Example(), azq.Options{
		Queues: []azq.Spec{
			{Name: "resets", Kinds: []string{"reset"}, Weight: 9, Urgent: true}, // has a slot besides
			{Name: "newsletters", Kinds: []string{"newsletter"}, Weight: 1},     // a tenth of the time, at least
		},
		Pools: map[string]int{"default": 1}, // items at once
		Log:   quiet,
	})
	// end snippet
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Newsletter]) error {
		if job.Data.Month == "June" {
			must(client.Send(ctx, Reset{"Ada"}))
			<-sent
		}
		fmt.Println("newsletter of", job.Data.Month)
		return nil
	})
	azq.Handle(client, func(_ context.Context, job *azq.Job[Reset]) error {
		fmt.Println("reset for", job.Data.To)
		close(sent)
		return nil
	})
	must(client.Send(ctx, Newsletter{"June"}))
	must(client.Send(ctx, Newsletter{"July"}))
	work(client)
	// Output:
	// reset for Ada
	// newsletter of June
	// newsletter of July
}
