package azurite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Clean deletes every container, queue and table under the account's prefix,
// which must not be empty.
func Clean(ctx context.Context, a *azstore.Account) error {
	prefix := a.Prefix()
	if prefix == "" {
		return errors.New("clean up: an account without a prefix may hold real data")
	}
	var errs []error
	containers := a.Blobs.NewListContainersPager(&service.ListContainersOptions{Prefix: &prefix})
	for containers.More() {
		page, err := containers.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list containers: %w", err)
		}
		for _, c := range page.ContainerItems {
			_, err := a.Blobs.DeleteContainer(ctx, *c.Name, nil)
			errs = append(errs, err)
		}
	}
	queues := a.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &prefix})
	for queues.More() {
		page, err := queues.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list queues: %w", err)
		}
		for _, q := range page.Queues {
			_, err := a.Queues.DeleteQueue(ctx, *q.Name, nil)
			errs = append(errs, err)
		}
	}
	tables, err := Tables(ctx, a)
	errs = append(errs, err)
	for _, base := range tables {
		_, err := a.Tables.DeleteTable(ctx, a.Name(base), nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Tables lists the tables under the account's prefix by their base names.
func Tables(ctx context.Context, a *azstore.Account) (bases []string, _ error) {
	filter := fmt.Sprintf("TableName ge '%s' and TableName lt '%s~'", a.Prefix(), a.Prefix())
	tables := a.Tables.NewListTablesPager(&aztables.ListTablesOptions{Filter: &filter})
	for tables.More() {
		page, err := tables.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		for _, table := range page.Tables {
			bases = append(bases, strings.TrimPrefix(*table.Name, a.Prefix()))
		}
	}
	return bases, nil
}
