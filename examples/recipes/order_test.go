package recipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Changed says: look at this customer.
type Changed struct{ Customer string }

func (Changed) Kind() string { return "changed" }

func eventKey(n int) string { return tablestore.Join("event", tablestore.Pad(int64(n), 9)) }

func customerRow(customer, key string, props map[string]any) tablestore.Entity {
	return tablestore.Entity{PartitionKey: customer, RowKey: key, Props: props}
}

// catchUp applies the events of a customer in the order of their numbers.
func catchUp(ctx context.Context, table *tablestore.Table, customer string) error {
	for {
		state, err := table.Get(ctx, customer, "state")
		if tablestore.IgnoreNotFound(err) != nil {
			return err
		}
		n := state.Int("N") + 1
		event, err := table.Get(ctx, customer, eventKey(n))
		if err != nil {
			return tablestore.IgnoreNotFound(err) // none yet: it will have a message of its own
		}
		_, err = table.Put(ctx, apply(state, event, n), state.ETag) // a late worker is refused
		if err != nil && !tablestore.Overtaken(err) {
			return err
		}
	}
}

func apply(state, event tablestore.Entity, n int) tablestore.Entity {
	return customerRow(event.PartitionKey, "state", map[string]any{"N": n, "Is": state.String("Is") + "/" + event.String("Does")})
}

// record gives an event the customer's next number.
func record(ctx context.Context, table *tablestore.Table, customer, does string) error {
	for {
		last, err := table.Get(ctx, customer, "last")
		if tablestore.IgnoreNotFound(err) != nil {
			return err
		}
		n := last.Int("N") + 1
		_, err = table.Submit(ctx, []tablestore.Op{
			{Kind: tablestore.OpInsert, Entity: customerRow(customer, eventKey(n), map[string]any{"Does": does})},
			tablestore.Over(customerRow(customer, "last", map[string]any{"N": n}), last.ETag),
		})
		if !tablestore.Overtaken(err) {
			return err
		}
	}
}

// Four workers have the same customer: each event changes the state once.
func TestEachEventIsAppliedOnce(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	table := openTable(slow(t, func(try azstore.Try) {
		if try.Kind == azstore.TableWrite && try.Status < 300 {
			writes.Add(1)
		}
	}), "customers")
	const events = 8
	for n := range events {
		if err := record(t.Context(), table, "Ada", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	writes.Store(0)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			if err := catchUp(t.Context(), table, "Ada"); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	state, err := table.Get(t.Context(), "Ada", "state")
	if writes.Load() != events || err != nil || state.String("Is") != "/0/1/2/3/4/5/6/7" {
		t.Errorf("%d writes, state %q, %v", writes.Load(), state.String("Is"), err)
	}
}

// Every message comes to one of four workers, and none waits for another.
func Example_order() {
	ctx, account := context.Background(), azuritetest.Example()
	table := openTable(account, "customers")
	client := azq.Open(account, azq.Options{Pools: map[string]int{"default": 4}, Log: quiet})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Changed]) error {
		return catchUp(ctx, table, job.Data.Customer)
	})
	var all sync.WaitGroup
	for _, customer := range []string{"Ada", "Bob"} {
		all.Go(func() {
			for _, does := range []string{"opened", "paid", "sent", "returned"} {
				check(record(ctx, table, customer, does))
				must(client.Send(ctx, Changed{customer}))
			}
		})
	}
	all.Wait()
	work(client)
	fmt.Println("Ada:", must(table.Get(ctx, "Ada", "state")).String("Is"))
	fmt.Println("Bob:", must(table.Get(ctx, "Bob", "state")).String("Is"))
	// Output:
	// Ada: /opened/paid/sent/returned
	// Bob: /opened/paid/sent/returned
}
