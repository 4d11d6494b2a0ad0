// Package provision makes everything that a stack keeps in its storage account. It
// lists the containers and tables. The queues are in workflow.Specs; package
// workqueue makes them, and the container and table that they need.
package provision

import (
	"context"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/audit"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/duplicates"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/searchindex"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/views"
	"github.com/cutroom/cutroom/shared/workers"
	"github.com/cutroom/cutroom/shared/workqueue"
)

// Containers and Tables are the base names, without those of package workqueue.
var (
	Containers = []string{video.SourcesContainer, video.MediaContainer, workqueue.ClaimsContainer, workqueue.ControlContainer}
	Tables     = append([]string{
		workers.Table,
		apikeys.Table, audit.Table,
		catalog.CatalogTable, catalog.RecentTable, searchindex.TermsTable, searchindex.PostingsTable, searchindex.VariantsTable,
		views.Table,
		registrations.Table,
		duplicates.Table,
		tablestore.UnreadableTable,
	}, videostore.Tables...)
)

// Ensure makes whatever a fresh account lacks. Every role calls it at its start;
// repeating it is no error.
func Ensure(ctx context.Context, account *azstorage.Account, queues *workqueue.Queues) error {
	if err := queues.Ensure(ctx); err != nil {
		return err
	}
	return account.Ensure(ctx, Containers, nil, Tables)
}
