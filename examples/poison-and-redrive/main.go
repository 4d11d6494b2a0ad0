// Command poison-and-redrive sends a letter to a street that is not on the map: after two failures
// it is poison. Then the map is mended, an operator sends the letter again, and it arrives.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

type Letter struct{ Street string }

func (Letter) Kind() string { return "letter" }

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
	client := azq.Open(account, azq.Options{Queues: []azq.Spec{{Name: "letters", MaxFailures: 2}}, FirstRetry: time.Second})
	var mended atomic.Bool // the map
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		if !mended.Load() {
			return fmt.Errorf("there is no %s", job.Data.Street)
		}
		return nil
	})
	id, err := client.Send(ctx, Letter{"Elm Street"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events, unsubscribe := client.Subscribe(16)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Run(ctx)
		unsubscribe()
	}()
	for event := range events {
		if event.Item.ID != id {
			continue // of an earlier run
		}
		fmt.Fprintln(out, event.Type, event.Err)
		if event.Type == azq.EventPoisoned {
			mended.Store(true)
			err = redrive(ctx, client, id)
		}
		if event.Type == azq.EventDone || err != nil {
			stop()
		}
	}
	return errors.Join(err, <-ended)
}

// redrive is what an operator does, here or with the command azq.
func redrive(ctx context.Context, client *azq.Client, id string) error {
	poison, _, err := client.ListPoison(ctx, 100, "")
	for _, p := range poison {
		if p.ItemID == id {
			_, err = client.Redrive(ctx, p.ID)
		}
	}
	return err
}
