// Command dual-rowkeys keeps each order under two RowKeys of its customer: it is found by its
// id, and listed by the day on which it is due, without a look at other rows. One entity-group
// transaction writes both rows, so that no reader sees one without the other.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type order struct{ Customer, ID, Due string }

func (o order) op(kind tablestore.OpKind, ifMatch string, key ...string) tablestore.Op {
	row := tablestore.Entity{PartitionKey: o.Customer, RowKey: tablestore.Join(key...), Props: tablestore.Props(o)}
	return tablestore.Op{Kind: kind, Entity: row, IfMatch: ifMatch}
}

func (o order) byID(kind tablestore.OpKind, etag string) tablestore.Op {
	return o.op(kind, etag, "id", o.ID)
}
func (o order) byDue(kind tablestore.OpKind) tablestore.Op { return o.op(kind, "", "due", o.Due, o.ID) }

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
	if err := account.Ensure(ctx, azstore.Names{Tables: []string{"dualrowkeys"}}); err != nil {
		return err
	}
	orders, customer := tablestore.New(account, "dualrowkeys"), rand.Text()
	for id, due := range map[string]string{"tree": "2026-12-24", "boots": "2026-12-06", "rockets": "2026-12-31"} {
		o := order{customer, id, due}
		both := []tablestore.Op{o.byID(tablestore.OpInsert, ""), o.byDue(tablestore.OpInsert)}
		if _, err := orders.Submit(ctx, both); err != nil {
			return err
		}
	}
	if err := postpone(ctx, orders, customer, "boots", "2026-12-27"); err != nil {
		return err
	}
	from, to := tablestore.Join("due", "2026-12-24"), tablestore.PrefixEnd("due") // from Christmas on
	for row, err := range orders.Query(ctx, tablestore.Query{PartitionKey: customer, RowFrom: from, RowTo: to}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, row.String("Due"), row.String("ID"))
	}
	return nil
}

// postpone moves an order's second row. Where another writer was first, it changes nothing:
// tablestore.ErrChanged.
func postpone(ctx context.Context, orders *tablestore.Table, customer, id, due string) error {
	row, err := orders.Get(ctx, customer, tablestore.Join("id", id))
	if err != nil || row.String("Due") == due {
		return err
	}
	old, moved := order{customer, id, row.String("Due")}, order{customer, id, due}
	_, err = orders.Submit(ctx, []tablestore.Op{
		moved.byID(tablestore.OpReplace, row.ETag), old.byDue(tablestore.OpDelete), moved.byDue(tablestore.OpInsert),
	})
	return err
}
