package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type order struct{ ID, Day, Customer string }

func (o order) byDay(state string) tablestore.Entity {
	return tablestore.Entity{PartitionKey: o.Day, RowKey: o.ID, Props: map[string]any{"Customer": o.Customer, "State": state}}
}

// follow makes the row under the new key what the row under the old one is.
func follow(ctx context.Context, byDay, byCustomer *tablestore.Table, o order) error {
	for {
		copied, err := byCustomer.Get(ctx, o.Customer, o.ID) // its version first, then the truth
		row, readErr := byDay.Get(ctx, o.Day, o.ID)
		if err := errors.Join(tablestore.IgnoreNotFound(err), tablestore.IgnoreNotFound(readErr)); err != nil {
			return err
		}
		switch {
		case copied.String("From") == row.ETag:
			return nil // the same, or neither is there
		case row.ETag == "":
			err = byCustomer.Delete(ctx, o.Customer, o.ID, copied.ETag)
		default:
			row.PartitionKey, row.Props["From"] = o.Customer, row.ETag
			_, err = byCustomer.Put(ctx, row, copied.ETag)
		}
		if err != nil && !tablestore.Overtaken(err) {
			return err
		}
	}
}

// Orders were listed by day, and are to be listed by customer. The old rows are copied.
func Example_rekey() {
	ctx, account := context.Background(), azuritetest.Example()
	byDay, byCustomer := openTable(account, "byday"), openTable(account, "bycustomer")
	for _, o := range []order{{"1", "2026-11-26", "Ada"}, {"2", "2026-11-27", "Bob"}, {"3", "2026-11-27", "Ada"}} {
		must(byDay.Insert(ctx, o.byDay("paid")))
	}
	for row, err := range byDay.Query(ctx, tablestore.Query{}) { // once, a scan
		check(err)
		check(follow(ctx, byDay, byCustomer, order{row.RowKey, row.PartitionKey, row.String("Customer")}))
	}
	for row, err := range byCustomer.Query(ctx, tablestore.Query{PartitionKey: "Ada"}) {
		check(err)
		fmt.Println(row.RowKey, row.String("State"))
	}
	// Output:
	// 1 paid
	// 3 paid
}

// Writers change and delete a row, each of them follows, and copiers pass at the same time.
func TestTheCopyIsWhatTheRowIs(t *testing.T) {
	t.Parallel()
	ctx, account := t.Context(), slow(t, nil)
	byDay, byCustomer := openTable(account, "byday"), openTable(account, "bycustomer")
	for n := range 20 {
		o := order{fmt.Sprint(n), "2026-11-27", "Ada"}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var err error
				switch rand.IntN(3) {
				case 0:
					err = byDay.Delete(ctx, o.Day, o.ID, tablestore.AnyETag)
				case 1:
					_, err = byDay.Upsert(ctx, o.byDay(fmt.Sprint("state ", rand.Int())))
				}
				if err := errors.Join(err, follow(ctx, byDay, byCustomer, o)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		row, err := byDay.Get(ctx, o.Day, o.ID)
		copied, copyErr := byCustomer.Get(ctx, o.Customer, o.ID)
		if errors.Is(err, tablestore.ErrNotFound) != errors.Is(copyErr, tablestore.ErrNotFound) || row.String("State") != copied.String("State") {
			t.Errorf("order %s is %q, %v; its copy %q, %v", o.ID, row.String("State"), err, copied.String("State"), copyErr)
		}
	}
}
