package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// greet is the handler under test: it greets a person once.
func greet(greeted *tablestore.Table) azq.Handler {
	return azq.HandlerOf(func(ctx context.Context, _ *azq.RawJob, letter Letter) error {
		_, err := greeted.Insert(ctx, tablestore.Entity{PartitionKey: "greeted", RowKey: letter.To})
		if errors.Is(err, tablestore.ErrExists) {
			return nil
		}
		return err
	})
}

// Every message comes twice, as when a worker dies between its commit and the delete.
func TestAPersonIsGreetedOnce(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	greeted := openTable(account, "greeted")
	queues := azqtest.Open(t, account, azq.Spec{Name: "mail", Kinds: []string{"letter"}, Visibility: 2 * time.Second})
	item, err := azq.NewItem("letter", "Ada", "letter-7", Letter{To: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	// snippet: test
	var deliveries azqtest.Recorder
	deliveries.Next = greet(greeted).Handle
	azqtest.Start(t, queues, map[string]azq.Handler{"letter": azqtest.Twice(&deliveries)})
	azqtest.Send(t, queues, "mail", item)
	azqtest.WaitEmpty(t, queues.Queue("mail"))

	rows, err := greeted.First(t.Context(), tablestore.Query{PartitionKey: "greeted"}, 10)
	if n := len(deliveries.IDs()); err != nil || n != 2 || len(rows) != 1 {
		t.Errorf("%d deliveries, %d greetings, %v; want 2, 1", n, len(rows), err)
	}
	// end snippet
}
