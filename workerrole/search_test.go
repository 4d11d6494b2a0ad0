package main

import (
	"context"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/searchindex"
)

func init() {
	finds = append(finds, func(ctx context.Context, account *azstore.Account) ([]engine.ID, error) {
		found, err := searchindex.New(account).Search(ctx, searchindex.Query{Channel: "tests"}, 10, "")
		return found.Hits, err
	})
}
