package rowstream_test

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// A list that three partitions share is read as one, in the order of the RowKeys.
func ExampleUnion() {
	ctx, account := context.Background(), azuritetest.Example()
	if err := account.Ensure(ctx, azstore.Names{Tables: []string{"letters"}}); err != nil {
		panic(err)
	}
	table, letters := tablestore.New(account, "letters"), rowstream.Union[string]{}
	for part := range int64(3) {
		partition := tablestore.Join("2026", tablestore.Pad(part, 1))
		for i := part; i < 6; i += 3 {
			row := tablestore.Entity{PartitionKey: partition, RowKey: tablestore.Pad(i, 3), Props: map[string]any{"To": "Ada"}}
			if _, err := table.Insert(ctx, row); err != nil {
				panic(err)
			}
		}
		letters.Lists = append(letters.Lists, &rowstream.Partition[string]{
			Table: table, PartitionKey: partition,
			Read: func(row tablestore.Entity) (string, error) { return row.String("To"), nil },
		})
	}
	for row, err := range rowstream.All(ctx, &letters, "002") {
		if err != nil {
			panic(err)
		}
		fmt.Print(row.Key, " ", row.Value, "; ")
	}
	// Output: 002 Ada; 003 Ada; 004 Ada; 005 Ada;
}
