package azq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// Letter is the data of an item: sender and handler share the type, which is its kind.
type Letter struct {
	To string `json:"to"`
}

// Kind names the work.
func (Letter) Kind() string { return "welcome" }

// Send and handle: an item with typed data is sent, and a handler gets it. The message is
// deleted when the handler has returned nil.
func Example() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet}) // one queue, "default"
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		fmt.Println("a letter to", job.Data.To, "about", job.Item.Subject)
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.ID("order-7.welcome"), azq.Subject("order 7"))
	check(err)
	runUntilEmpty(client)
	// Output: a letter to Ada about order 7
}

// Retry and poison: an error is a failed attempt, and the next one comes after a
// growing pause. The last failure puts the item aside as poison, from where an
// operator sends it again.
func Example_retryAndPoison() {
	queues := azq.Open(azuritetest.Example(), azq.Options{Queues: []azq.Spec{{Name: "mail", Kinds: []string{"welcome"}, Pool: "mail", MaxFailures: 2}}})
	check(queues.Ensure(context.Background()))
	enqueue(queues, "mail", "welcome", "order-7.welcome")

	broken := true
	options := azq.Options{
		Pools: map[string]int{"mail": 1},
		Handlers: map[string]azq.Handler{
			"welcome": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
				fmt.Printf("attempt %d, last error %q\n", job.Attempt(), job.Item.LastError)
				if broken {
					return errors.New("no such street")
				}
				return nil
			}),
		},
		FirstRetry: time.Second,
		Log:        quiet,
	}
	consume(queues, options)
	poisoned, _, err := queues.ListPoison(context.Background(), 10, "")
	check(err)
	fmt.Println(len(poisoned), "poisoned:", poisoned[0].ItemID, "-", poisoned[0].Reason)

	broken = false
	_, err = queues.Redrive(context.Background(), poisoned[0].ID)
	check(err)
	consume(queues, options)
	// Output:
	// attempt 1, last error ""
	// attempt 2, last error "no such street"
	// 1 poisoned: order-7.welcome - no such street
	// attempt 1, last error ""
}

// A lease kept by progress: work may take much longer than the visibility timeout,
// as long as it says that it moves. A worker that hangs or dies loses the message.
func Example_leaseKeptByProgress() {
	queues := azq.Open(azuritetest.Example(), azq.Options{Queues: []azq.Spec{{Name: "films", Kinds: []string{"encode"}, Pool: "films", Visibility: 8 * time.Second}}})
	check(queues.Ensure(context.Background()))
	enqueue(queues, "films", "encode", "film-1")

	consume(queues, azq.Options{
		Pools: map[string]int{"films": 2},
		Handlers: map[string]azq.Handler{
			"encode": azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
				for frame := range 200 { // ten seconds
					select {
					case <-ctx.Done(): // the lease is lost or ends, or the worker drains
						return context.Cause(ctx)
					case <-time.After(50 * time.Millisecond):
						job.Progress()
					}
					if frame == 199 {
						fmt.Println("done in delivery", job.DequeueCount)
					}
				}
				return nil
			}),
		},
		Log: quiet,
	})
	// Output: done in delivery 1
}

// Snooze: work that is not due yet goes back for a while. It costs no attempt.
func Example_snooze() {
	queues := azq.Open(azuritetest.Example(), azq.Options{Queues: []azq.Spec{{Name: "mail", Kinds: []string{"welcome"}, Pool: "mail"}}})
	check(queues.Ensure(context.Background()))
	enqueue(queues, "mail", "welcome", "order-7.welcome")

	consume(queues, azq.Options{
		Pools: map[string]int{"mail": 1},
		Handlers: map[string]azq.Handler{
			"welcome": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
				if job.Item.Snoozes < 2 {
					fmt.Println("too early")
					return azq.Snooze(time.Second, "the shop is closed")
				}
				fmt.Println("sent in attempt", job.Attempt())
				return nil
			}),
		},
		Log: quiet,
	})
	// Output:
	// too early
	// too early
	// sent in attempt 1
}

// Priorities: queues share the slots of their pool by weight, so that bulk work is
// slow and never stuck. An urgent queue has a slot of its own besides, which it
// finds free even while bulk work holds the whole pool.
func Example_priorities() {
	queues := azq.Open(azuritetest.Example(), azq.Options{Queues: []azq.Spec{
		{Name: "password-resets", Kinds: []string{"reset"}, Pool: "mail", Weight: 3, Urgent: true},
		{Name: "newsletters", Kinds: []string{"newsletter"}, Pool: "mail", Weight: 1},
	}})
	check(queues.Ensure(context.Background()))
	enqueue(queues, "newsletters", "newsletter", "june", "july")

	sent := make(chan struct{})
	consume(queues, azq.Options{
		Pools: map[string]int{"mail": 1},
		Handlers: map[string]azq.Handler{
			"newsletter": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
				if job.Item.ID == "june" { // the only ordinary slot is taken until the reset has gone out
					enqueue(queues, "password-resets", "reset", "Ada")
					<-sent
				}
				fmt.Println("newsletter of", job.Item.ID)
				return nil
			}),
			"reset": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
				fmt.Println("password reset for", job.Item.ID)
				close(sent)
				return nil
			}),
		},
		Log: quiet,
	})
	// Output:
	// password reset for Ada
	// newsletter of june
	// newsletter of july
}

var quiet = slog.New(slog.DiscardHandler)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// consume works until the queues are empty.
func consume(queues *azq.Client, options azq.Options) { runUntilEmpty(queues.With(options)) }

func runUntilEmpty(client *azq.Client) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	var running sync.WaitGroup
	running.Go(func() { check(client.Run(ctx)) })
	for _, spec := range client.Specs() {
		azuritetest.Poll(time.Minute, func() bool {
			state, err := client.Queue(spec.Name).Length(ctx)
			check(err)
			return state.Length == 0
		})
	}
	stop()
	running.Wait()
}

// enqueue puts items without data into a queue.
func enqueue(queues *azq.Client, queue, step string, ids ...string) {
	for _, id := range ids {
		item, err := azq.NewItem(step, "", id, nil)
		check(err)
		check(queues.SendItem(context.Background(), queue, item, 0))
	}
}
