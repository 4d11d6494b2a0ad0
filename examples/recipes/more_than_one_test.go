package recipes

import (
	"context"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// Clicks are many in one message.
type Clicks struct{ Visitors []string }

func (Clicks) Kind() string { return "clicks" }

func click(part int, visitor string) tablestore.Op {
	row := tablestore.Entity{PartitionKey: tablestore.Join("home", fmt.Sprint(part)), RowKey: visitor}
	return tablestore.Op{Kind: tablestore.OpUpsert, Entity: row}
}

// A hundred clicks are twenty messages in four queues, and rows in four partitions.
func Example_moreThanOne() {
	ctx, account := context.Background(), azuritetest.Example()
	table := openTable(account, "clicks")
	// snippet: more-than-one
	const parts = 4 // the peak a second ÷ 1,000, and one more
	client := azq.Open(account, azq.Options{
		Queues: []azq.Spec{{Name: "clicks", Laned: true}}, Lanes: parts, Log: quiet,
	})
	azq.Handle(client, func(ctx context.Context, job *azq.Job[Clicks]) error {
		var rows []tablestore.Op
		for _, visitor := range job.Data.Visitors {
			rows = append(rows, click(tablestore.Shard(visitor, parts), visitor))
		}
		return table.SubmitAll(ctx, rows) // up to 100 of a partition in a transaction
	})
	send := func(n int, visitors []string) error { // many in a message, queues in turn
		_, err := client.Send(ctx, Clicks{visitors}, azq.InQueue(azq.LaneName("clicks", n%parts)))
		return err
	}
	// end snippet
	var visitors []string
	for n := range 100 {
		visitors = append(visitors, fmt.Sprintf("visitor %03d", n))
	}
	n := 0
	for some := range slices.Chunk(visitors, 5) {
		check(send(n, some))
		n++
	}
	work(client)
	for _, q := range client.Stats().Queues {
		fmt.Println(q.Queue, q.Completed)
	}
	partitions, rows := map[string]bool{}, 0
	for row, err := range table.Query(ctx, tablestore.Query{}) {
		check(err)
		partitions[row.PartitionKey] = true
		rows++
	}
	fmt.Println(rows, "rows in", len(partitions), "partitions")
	// Output:
	// clicks 5
	// clicks-1 5
	// clicks-2 5
	// clicks-3 5
	// 100 rows in 4 partitions
}
