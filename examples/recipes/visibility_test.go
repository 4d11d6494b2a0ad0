package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

type Thumbnail struct{ Film string }

func (Thumbnail) Kind() string { return "thumbnail" }

type Film struct{ Name string }

func (Film) Kind() string { return "film" }

// Work that takes a known time and work that does not.
func Example_visibility() {
	ctx := context.Background()
	// snippet: visibility
	client := azq.Open(azuritetest.Example(), azq.Options{
		Queues: []azq.Spec{
			{Name: "thumbnails", Kinds: []string{"thumbnail"}, Visibility: 9 * time.Second}, // take one or two
			{Name: "films", Kinds: []string{"film"}, Visibility: 5 * time.Second},           // renewed
		},
		StallAfter: 3 * time.Second, Log: quiet, // stopped without progress
	})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Film]) error {
		for range 80 { // frames
			select {
			case <-ctx.Done(): // the lease is lost or ends, or the worker drains
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
				job.Progress()
			}
		}
		fmt.Println("film: delivery", job.DequeueCount, "renewed:", job.Renewals() > 0)
		return nil
	})
	// end snippet
	azq.Handle(client, func(_ context.Context, job *azq.Job[Thumbnail]) error {
		fmt.Println("thumbnail: delivery", job.DequeueCount, "renewed:", job.Renewals() > 0)
		return nil
	})
	must(client.Send(ctx, Thumbnail{"Casablanca"}))
	must(client.Send(ctx, Film{"Casablanca"}))
	work(client)
	// Unordered output:
	// thumbnail: delivery 1 renewed: false
	// film: delivery 1 renewed: true
}
