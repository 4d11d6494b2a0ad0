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

// An id of the work's own makes it safe to send again: a Send that failed may have arrived. The
// handler sees the same id twice.
func ExampleID() {
	client := azq.Open(azuritetest.Example(), azq.Options{Pools: map[string]int{"default": 1}, Log: quiet})
	sent := map[string]bool{} // a program keeps this in a table
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		fmt.Println(job.Item.ID, "was sent already:", sent[job.Item.ID])
		sent[job.Item.ID] = true
		return nil
	})
	for range 2 {
		_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.ID("customer-7.welcome"))
		check(err)
	}
	runUntilEmpty(client)
	// Output:
	// customer-7.welcome was sent already: false
	// customer-7.welcome was sent already: true
}

// Work for later: the item is hidden for a while.
func ExampleAfter() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	start := time.Now()
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		fmt.Println("a reminder to", job.Data.To, "after two seconds:", time.Since(start) >= 2*time.Second)
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.After(2*time.Second), azq.ExpiresAfter(time.Hour))
	check(err)
	runUntilEmpty(client)
	// Output: a reminder to Ada after two seconds: true
}

// Many at once, each with options of its own. Those that could not be sent have no id.
func ExampleSendMany() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		fmt.Println("a letter to", job.Data.To, "as", job.Item.ID)
		return nil
	})
	ids, err := azq.SendMany(context.Background(), client, []Letter{{To: "Ada"}, {To: "Bob"}, {To: "Eve"}},
		func(l Letter) []azq.SendOption { return []azq.SendOption{azq.ID("june." + l.To)} })
	check(err)
	fmt.Println(ids)
	runUntilEmpty(client)
	// Unordered output:
	// [june.Ada june.Bob june.Eve]
	// a letter to Ada as june.Ada
	// a letter to Bob as june.Bob
	// a letter to Eve as june.Eve
}

// Customers take turns: who sends much delays itself. Producers give the customer and need not
// know how many lanes the queue has.
func ExampleFair() {
	client := azq.Open(azuritetest.Example(), azq.Options{
		Queues: []azq.Spec{{Name: "letters", Laned: true}},
		Pools:  map[string]int{"default": 1},
		Log:    quiet,
	})
	newsletters := 0
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Data.To == "Ada" {
			fmt.Println("Ada waited for all newsletters of the shop:", newsletters == 20)
			return nil
		}
		newsletters++
		return nil
	})
	for range 20 {
		_, err := client.Send(context.Background(), Letter{To: "everybody"}, azq.Fair("shop"))
		check(err)
	}
	_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.Fair("customer 7"))
	check(err)
	runUntilEmpty(client)
	// Output: Ada waited for all newsletters of the shop: false
}

// A failure that no further attempt can cure makes the item poison at once. The second function
// is told before, to record that the work failed.
func ExamplePermanent() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	azq.HandleWith(client,
		func(_ context.Context, job *azq.Job[Letter]) error {
			return azq.Permanent(fmt.Errorf("%q is no name", job.Data.To))
		},
		func(_ context.Context, job *azq.Job[Letter], cause error) error {
			fmt.Println("returned to the sender of", job.Item.ID+":", cause)
			return nil
		})
	_, err := client.Send(context.Background(), Letter{To: "?"}, azq.ID("letter-7"))
	check(err)
	runUntilEmpty(client)
	// Output: returned to the sender of letter-7: "?" is no name
}

// A failed attempt whose handler knows when the next one may succeed.
func ExampleRetryAfter() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Attempt() == 1 {
			return azq.RetryAfter(errors.New("the printer warms up"), time.Second)
		}
		fmt.Printf("printed in attempt %d, after %q\n", job.Attempt(), job.Item.LastError)
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"})
	check(err)
	runUntilEmpty(client)
	// Output: printed in attempt 2, after "the printer warms up"
}

// Work that is not due yet goes back for a while. It costs no attempt.
func ExampleSnooze() {
	client := azq.Open(azuritetest.Example(), azq.Options{Log: quiet})
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Item.Snoozes < 2 {
			fmt.Println("too early")
			return azq.Snooze(time.Second, "the shop is closed")
		}
		fmt.Println("sent in attempt", job.Attempt())
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"})
	check(err)
	runUntilEmpty(client)
	// Output:
	// too early
	// too early
	// sent in attempt 1
}

// A lease kept by progress: work may take much longer than the visibility timeout,
// as long as it says that it moves. A worker that hangs or dies loses the message.
func ExampleRawJob_Progress() {
	client := azq.Open(azuritetest.Example(), azq.Options{
		Queues: []azq.Spec{{Name: "letters", Visibility: 8 * time.Second}},
		Pools:  map[string]int{"default": 2},
		Log:    quiet,
	})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Letter]) error {
		for range 200 { // ten seconds
			select {
			case <-ctx.Done(): // the lease is lost or ends, or the worker drains
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
				job.Progress()
			}
		}
		fmt.Println("done in delivery", job.DequeueCount)
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"})
	check(err)
	runUntilEmpty(client)
	// Output: done in delivery 1
}

// Retry, poison and redrive: an error is a failed attempt, and the next one comes after a
// growing pause. The last failure puts the item aside as poison, from where an operator sends it again.
func ExampleClient_Redrive() {
	options := azq.Options{
		Queues: []azq.Spec{{Name: "mail", MaxFailures: 2}}, FirstRetry: time.Second, Log: quiet,
	}
	account, broken := azuritetest.Example(), true
	work := func() *azq.Client {
		client := azq.Open(account, options)
		azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
			fmt.Printf("attempt %d, last error %q\n", job.Attempt(), job.Item.LastError)
			if broken {
				return errors.New("no such street")
			}
			return nil
		})
		runUntilEmpty(client)
		return client
	}
	_, err := azq.Open(account, options).Send(context.Background(), Letter{To: "Ada"}, azq.ID("order-7.welcome"))
	check(err)
	client := work()
	poisoned, _, err := client.ListPoison(context.Background(), 10, "")
	check(err)
	fmt.Println(len(poisoned), "poisoned:", poisoned[0].ItemID, "-", poisoned[0].Reason)

	broken = false
	_, err = client.Redrive(context.Background(), poisoned[0].ID)
	check(err)
	work()
	// Output:
	// attempt 1, last error ""
	// attempt 2, last error "no such street"
	// 1 poisoned: order-7.welcome - no such street
	// attempt 1, last error ""
}

// Middleware goes around every handler, and around every sending.
func ExampleOptions_middleware() {
	logged := func(next azq.Handler) azq.Handler {
		return azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
			err := next.Handle(ctx, job)
			fmt.Println(job.Item.Kind, job.Item.ID, "from", job.Item.Source, "ended with", err)
			return err
		})
	}
	named := func(next azq.Sender) azq.Sender {
		return func(ctx context.Context, out azq.Outgoing) error {
			out.Item.Source = "/shop"
			return next(ctx, out)
		}
	}
	client := azq.Open(azuritetest.Example(), azq.Options{
		Middleware:     []func(azq.Handler) azq.Handler{logged},
		SendMiddleware: []func(azq.Sender) azq.Sender{named},
		Log:            quiet,
	})
	azq.Handle(client, func(context.Context, *azq.Job[Letter]) error { return nil })
	_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.ID("letter-7"))
	check(err)
	runUntilEmpty(client)
	// Output: welcome letter-7 from /shop ended with <nil>
}

// Events, for a dashboard or a test. A reader that is too slow misses some, and delays no work.
func ExampleClient_Subscribe() {
	client := azq.Open(azuritetest.Example(), azq.Options{FirstRetry: time.Second, Log: quiet})
	azq.Handle(client, func(_ context.Context, job *azq.Job[Letter]) error {
		if job.Attempt() == 1 {
			return errors.New("the printer is out of paper")
		}
		return nil
	})
	_, err := client.Send(context.Background(), Letter{To: "Ada"}, azq.ID("letter-7"))
	check(err)
	events, stop := client.Subscribe(64)
	runUntilEmpty(client)
	fmt.Println("missed:", stop())
	for event := range events {
		fmt.Println(event.Type, event.Item.ID, event.Err)
	}
	// Output:
	// missed: 0
	// retried letter-7 the printer is out of paper
	// done letter-7 <nil>
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
