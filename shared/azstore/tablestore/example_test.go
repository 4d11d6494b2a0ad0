package tablestore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type letter struct {
	ID, Day string
	Pages   int
}

// letters is an empty table on the emulator.
func letters() *tablestore.Table {
	account := azuritetest.Example()
	if err := account.Ensure(context.Background(), azstore.Names{Tables: []string{"letters"}}); err != nil {
		panic(err)
	}
	return tablestore.New(account, "letters")
}

// A letter has two rows in the partition of its writer, so that it is found by its id and
// listed by day. A transaction writes both or none.
func ExampleTable_Submit() {
	ctx, table := context.Background(), letters()
	of := func(l letter) []tablestore.Op {
		byID := tablestore.Entity{PartitionKey: "Ada", RowKey: tablestore.Join("id", l.ID), Props: tablestore.Props(l)}
		byDay := byID
		byDay.RowKey = tablestore.Join("day", l.Day, l.ID)
		return []tablestore.Op{{Kind: tablestore.OpInsert, Entity: byID}, {Kind: tablestore.OpInsert, Entity: byDay}}
	}
	_, err := table.Submit(ctx, of(letter{"7", "2026-12-24", 3}))
	fmt.Println(err)
	_, err = table.Submit(ctx, of(letter{"7", "2026-12-31", 9})) // the id is taken: nothing is written
	fmt.Println(errors.Is(err, tablestore.ErrExists))

	december := tablestore.Query{
		PartitionKey: "Ada",
		RowFrom:      tablestore.Join("day", "2026-12"), RowTo: tablestore.PrefixEnd(tablestore.Join("day", "2026-12")),
	}
	for row, err := range table.Query(ctx, december) {
		if err != nil {
			panic(err)
		}
		var l letter
		fmt.Println(row.RowKey, row.Struct(&l), l.Pages)
	}
	// Output:
	// <nil>
	// true
	// day__2026-12-24__7 <nil> 3
}

// Page by page, with a token that a client may keep. A token belongs to its query.
func ExampleTable_Page() {
	ctx, table := context.Background(), letters()
	for i := range int64(5) {
		if _, err := table.Insert(ctx, tablestore.Entity{PartitionKey: "Ada", RowKey: tablestore.Pad(i, 3)}); err != nil {
			panic(err)
		}
	}
	query := tablestore.Query{PartitionKey: "Ada", PageSize: 2, Class: tablestore.RowRange}
	for token := ""; ; {
		rows, next, err := table.Page(ctx, query, token)
		if err != nil {
			panic(err)
		}
		fmt.Println(len(rows), "from", rows[0].RowKey)
		if token = next; token == "" {
			break
		}
	}
	_, _, err := table.Page(ctx, query, "not-a-token")
	fmt.Println(errors.Is(err, tablestore.ErrToken))
	// Output:
	// 2 from 000
	// 2 from 002
	// 1 from 004
	// true
}

// Of two writers who have read the same version one is told that it is too late.
func ExampleTable_Update() {
	ctx, table := context.Background(), letters()
	etag, err := table.Insert(ctx, tablestore.Entity{PartitionKey: "Ada", RowKey: "7", Props: map[string]any{"Pages": 3}})
	if err != nil {
		panic(err)
	}
	for range 2 {
		row, err := table.Get(ctx, "Ada", "7")
		if err != nil {
			panic(err)
		}
		row.Props["Pages"] = row.Int("Pages") + 1
		if _, err = table.Update(ctx, row, etag); errors.Is(err, tablestore.ErrChanged) {
			fmt.Println("changed in the meantime: read again, then", row.Int("Pages"))
			_, err = table.Update(ctx, row, row.ETag)
		}
		fmt.Println(row.Int("Pages"), err)
	}
	// Output:
	// 4 <nil>
	// changed in the meantime: read again, then 5
	// 5 <nil>
}

// Keys are ordered as text. Numbers get leading zeros, and times are inverted where the
// latest shall come first.
func ExampleJoin() {
	fmt.Println(tablestore.Join("New York City Marathon", tablestore.Pad(55, 5)))
	fmt.Println(tablestore.Join("AC/DC", "a__b")) // different fields never give one key
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	fmt.Println(tablestore.InvertedTime(noon) > tablestore.InvertedTime(noon.Add(time.Minute)))
	fmt.Println(tablestore.PrefixEnd("day")) // the end of the range of all keys that begin so
	// Output:
	// New York City Marathon__00055
	// AC!2FDC__a_!5Fb
	// true
	// daz
}

// A query says what it may cost. Without a partition it would read the whole table.
func ExampleQuery() {
	_, err := letters().First(context.Background(), tablestore.Query{RowFrom: "id", Class: tablestore.RowRange}, 10)
	fmt.Println(errors.Is(err, tablestore.ErrClass))
	// Output: true
}
