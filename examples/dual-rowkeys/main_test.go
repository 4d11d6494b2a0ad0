package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestOrdersAreListedByDay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), azuritetest.Account(t), &out); err != nil {
		t.Fatal(err)
	}
	if want := "2026-12-24 tree\n2026-12-27 boots\n2026-12-31 rockets\n"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// Of writers at once one wins each time, and an order never has more or fewer rows than two.
func TestAnOrderHasTwoRows(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{"dualrowkeys"}}); err != nil {
		t.Fatal(err)
	}
	orders, o := tablestore.New(account, "dualrowkeys"), order{"Ada", "ink", "2026-12-01"}
	both := []tablestore.Op{o.byID(tablestore.OpInsert, ""), o.byDue(tablestore.OpInsert)}
	if _, err := orders.Submit(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for day := 2; day <= 9; day++ {
		writers.Go(func() {
			err := postpone(t.Context(), orders, "Ada", "ink", fmt.Sprintf("2026-12-%02d", day))
			if err != nil && !tablestore.Overtaken(err) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	rows, err := orders.First(t.Context(), tablestore.Query{PartitionKey: "Ada"}, 10)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v: want 2", len(rows), err)
	}
	if a, b := rows[0].String("Due"), rows[1].String("Due"); a != b || !strings.Contains(rows[0].RowKey, a) {
		t.Errorf("rows %q and %q are due %s and %s", rows[0].RowKey, rows[1].RowKey, a, b)
	}
}
