// A program that knows azstore from its documentation: a letter is a blob and two rows.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type letter struct{ ID, Day, ETag string }

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(azstore.Brief(err))
	}
}

func run(ctx context.Context) error {
	account, err := azstore.OpenFromEnv("LETTERS")
	if err != nil {
		return err
	}
	if err := account.Ensure(ctx, azstore.Names{Containers: []string{"scans"}, Tables: []string{"letters"}}); err != nil {
		return err
	}
	ctx, counter := azstore.WithCounter(ctx)
	l := letter{ID: "7", Day: "2026-12-24"}
	if l.ETag, err = blobstore.New(account).Put(ctx, "scans", l.ID, []byte("Dear Ada"), blobstore.Options{}); err != nil {
		return err
	}
	letters := tablestore.New(account, "letters")
	byID := tablestore.Entity{PartitionKey: "Ada", RowKey: tablestore.Join("id", l.ID), Props: tablestore.Props(l)}
	byDay := tablestore.Entity{PartitionKey: "Ada", RowKey: tablestore.Join("day", l.Day, l.ID), Props: byID.Props}
	_, err = letters.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpInsert, Entity: byID}, {Kind: tablestore.OpInsert, Entity: byDay}})
	if err != nil {
		return err
	}
	days := tablestore.Query{PartitionKey: "Ada", RowFrom: "day", RowTo: tablestore.PrefixEnd("day"), Class: tablestore.RowRange}
	for row, err := range letters.Query(ctx, days) {
		if err != nil {
			return err
		}
		var found letter
		if err := row.Struct(&found); err != nil {
			return err
		}
		fmt.Println(found.Day, found.ETag == l.ETag, counter.Requests())
	}
	return nil
}
