// Command outbox writes an order and the message that tells of it in one transaction, as two
// rows of one partition. A relay sends what waits in such rows. A process may die anywhere:
// no order is without its message, and no message without its order.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type placed struct{ Shop, Order string } // data of a message
func (placed) Kind() string              { return "placed" }

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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	orders, shop := tablestore.New(account, "outbox"), rand.Text()
	client := azq.Open(account, azq.Options{Queues: []azq.Spec{{Name: "outbox"}}})
	if err := errors.Join(client.Ensure(ctx), account.Ensure(ctx, azstore.Names{Tables: []string{"outbox"}})); err != nil {
		return err
	}
	if err := place(ctx, orders, placed{shop, "7"}); err != nil {
		return err
	} // a process that dies here has sent nothing: the relay of another does
	if err := relay(ctx, orders, client, shop); err != nil {
		return err
	}
	azq.Handle(client, func(_ context.Context, job *azq.Job[placed]) error {
		fmt.Fprintln(out, "pack order", job.Data.Order) // may come twice: it has the same job.Item.ID then
		stop()
		return nil
	})
	return client.Run(ctx)
}

func place(ctx context.Context, orders *tablestore.Table, p placed) error {
	order := tablestore.Entity{PartitionKey: p.Shop, RowKey: tablestore.Join("order", p.Order)}
	send := tablestore.Entity{PartitionKey: p.Shop, RowKey: tablestore.Join("send", p.Order), Props: tablestore.Props(p)}
	_, err := orders.Submit(ctx, []tablestore.Op{
		{Kind: tablestore.OpInsert, Entity: order}, {Kind: tablestore.OpInsert, Entity: send},
	})
	return err
}

// relay sends what waits, then removes it. A program calls it after place, and every few seconds.
func relay(ctx context.Context, orders *tablestore.Table, client *azq.Client, shop string) error {
	waiting := tablestore.Query{PartitionKey: shop, RowFrom: "send", RowTo: tablestore.PrefixEnd("send")}
	for row, err := range orders.Query(ctx, waiting) {
		if err == nil {
			_, err = client.Send(ctx, placed{shop, row.String("Order")}, azq.ID(shop+"-"+row.String("Order")))
		}
		if err == nil {
			err = orders.Delete(ctx, shop, row.RowKey, row.ETag)
		}
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) { // another relay has removed it
			return err
		}
	}
	return nil
}
