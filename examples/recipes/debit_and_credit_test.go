package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// side is one half of a transfer.
type side struct {
	Transfer, Account string
	Cents             int64
}

func (s side) row(partition, key string) tablestore.Op {
	return tablestore.Op{Kind: tablestore.OpInsert, Entity: tablestore.Entity{PartitionKey: partition, RowKey: key, Props: tablestore.Props(s)}}
}

// transfer writes both sides or none. Safe to repeat.
func transfer(ctx context.Context, transfers *tablestore.Table, id, from, to string, cents int64) error {
	debit, credit := side{id, from, -cents}, side{id, to, cents}
	_, err := transfers.Submit(ctx, []tablestore.Op{debit.row(id, "debit"), credit.row(id, "credit")})
	if errors.Is(err, tablestore.ErrExists) {
		return nil
	}
	return err
}

// book adds a side to its account's balance, once. A handler calls it for each side.
func book(ctx context.Context, accounts *tablestore.Table, s side) error {
	for {
		balance, err := accounts.Get(ctx, s.Account, "balance")
		if tablestore.IgnoreNotFound(err) != nil {
			return err
		}
		sum := map[string]any{"Cents": balance.Int64("Cents") + s.Cents}
		next := tablestore.Entity{PartitionKey: s.Account, RowKey: "balance", Props: sum}
		// snippet: book-once
		_, err = accounts.Submit(ctx, []tablestore.Op{
			s.row(s.Account, tablestore.Join("booked", s.Transfer)), // ErrExists, if it was booked
			tablestore.Over(next, balance.ETag),                     // ErrChanged, if another side came between
		})
		// end snippet
		if !tablestore.Overtaken(err) {
			return err
		}
		if _, err := accounts.Get(ctx, s.Account, tablestore.Join("booked", s.Transfer)); !errors.Is(err, tablestore.ErrNotFound) {
			return err // booked before, or another error
		}
	}
}

func Example_debitAndCredit() {
	ctx, account := context.Background(), azuritetest.Example()
	transfers, accounts := openTable(account, "transfers"), openTable(account, "accounts")
	check(transfer(ctx, transfers, "t-7", "Ada", "Bob", 500))
	check(transfer(ctx, transfers, "t-7", "Ada", "Bob", 500)) // repeated
	for row, err := range transfers.Query(ctx, tablestore.Query{PartitionKey: "t-7"}) {
		check(err)
		var s side
		check(row.Struct(&s))
		check(book(ctx, accounts, s))
	}
	fmt.Println("Ada", must(accounts.Get(ctx, "Ada", "balance")).Int("Cents"))
	fmt.Println("Bob", must(accounts.Get(ctx, "Bob", "balance")).Int("Cents"))
	// Output:
	// Ada -500
	// Bob 500
}

// Each side is booked by three handlers at once, as after lost leases.
func TestEachSideIsBookedOnce(t *testing.T) {
	t.Parallel()
	accounts := openTable(azuritetest.Account(t), "accounts")
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			if err := book(t.Context(), accounts, side{fmt.Sprint("t-", n%4), "Bob", 100}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if balance, err := accounts.Get(t.Context(), "Bob", "balance"); err != nil || balance.Int("Cents") != 400 {
		t.Errorf("Bob has %d cents, %v; want 400", balance.Int("Cents"), err)
	}
}
