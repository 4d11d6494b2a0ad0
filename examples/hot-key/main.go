// Command hot-key counts the clicks of a page that everyone visits. All clicks in one partition
// would be served by one server of the table service, at 2,000 rows of 1 KiB a second. A suffix spreads
// them over partitions; it follows from the RowKey, so that one click is still found by a point
// query. All are read together in the order of their RowKeys, as if they were one partition.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"os"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/rowstream"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

const parts = 8 // it stays so: with another number, rows would not be found

func part(page string, n uint32) string { return tablestore.Join(page, tablestore.Pad(int64(n), 2)) }

// partitionOf is the partition of a row of a page.
func partitionOf(page, rowKey string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(rowKey)) // never fails
	return part(page, hash.Sum32()%parts)
}

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
	if err := account.Ensure(ctx, azstore.Names{Tables: []string{"hotkey"}}); err != nil {
		return err
	}
	clicks, page := tablestore.New(account, "hotkey"), rand.Text()
	for i := range int64(50) {
		key := tablestore.Pad(i, 5) // by time, in a program
		props := map[string]any{"Visitor": i % 7}
		_, err := clicks.Insert(ctx, tablestore.Entity{PartitionKey: partitionOf(page, key), RowKey: key, Props: props})
		if err != nil {
			return err
		}
	}
	one, err := clicks.Get(ctx, partitionOf(page, "00042"), "00042")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "click 00042 was visitor", one.Int("Visitor"))
	for click, err := range rowstream.All(ctx, together(clicks, page), "00047") { // from there on
		if err != nil {
			return err
		}
		fmt.Fprintln(out, click.Key, click.Value)
	}
	return nil
}

// together is the clicks of a page, of all its partitions.
func together(clicks *tablestore.Table, page string) rowstream.List[int] {
	all := &rowstream.Union[int]{}
	for n := range uint32(parts) {
		all.Lists = append(all.Lists, &rowstream.Partition[int]{
			Table: clicks, PartitionKey: part(page, n),
			Read: func(row tablestore.Entity) (int, error) { return row.Int("Visitor"), nil },
		})
	}
	return all
}
