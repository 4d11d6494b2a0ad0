// Command lease-by-progress prints a book, which takes more than twice as long as a received message
// is hidden. The lease is renewed while the handler says that pages move, so no other worker gets the
// message. A press that jams says nothing: it loses the message after five seconds, and the next
// attempt prints the book.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

type Book struct {
	Title string
	Pages int
}

func (Book) Kind() string { return "book" }

func main() {
	account, err := azstore.OpenFromEnv("EXAMPLES")
	if err == nil {
		err = run(context.Background(), account, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, account *azstore.Account, out io.Writer) error {
	client := azq.Open(account, azq.Options{
		Queues:     []azq.Spec{{Name: "books", Visibility: 6 * time.Second}},
		Pools:      map[string]int{"default": 2}, // the second press would print the book again if it got it
		StallAfter: 5 * time.Second,
	})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Book]) error {
		for page := 1; page <= job.Data.Pages; page++ {
			select {
			case <-ctx.Done(): // no progress, the lease is lost, or the worker drains
				return context.Cause(ctx)
			case <-time.After(time.Second):
			}
			fmt.Fprintln(out, "page", page)
			job.Progress()
		}
		fmt.Fprintf(out, "%s is printed, in delivery %d\n", job.Data.Title, job.DequeueCount)
		return nil
	})
	id, err := client.Send(ctx, Book{"Emma", 14})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, unsubscribe := client.Subscribe(16)
	defer unsubscribe()
	go func() {
		for event := range events {
			if event.Item.ID == id { // the first thing that is told of it
				fmt.Fprintln(out, event.Type)
				stop()
			}
		}
	}()
	return client.Run(ctx)
}
