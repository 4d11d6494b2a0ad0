package catalog

import (
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/indexrowstest"
	"github.com/cutroom/cutroom/shared/video"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// world is a truth and the lists made from it.
type world struct {
	*Catalog
	account *azstore.Account

	indexrowstest.Truth
}

func newWorld(t *testing.T) *world {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{CatalogTable, RecentTable}}); err != nil {
		t.Fatal(err)
	}
	return &world{Catalog: New(account), account: account}
}

// faulty is the same world seen through a transport that breaks.
func (w *world) faulty(t *testing.T, choose func(*http.Request) inject.Fault) *Catalog {
	t.Helper()
	return New(azuritetest.FaultyAccount(t, w.account, choose))
}

func (w *world) sync(t *testing.T, v video.Video) {
	t.Helper()
	w.Put(v)
	if err := w.Sync(t.Context(), v.ID, w.Current(v.ID)); err != nil {
		t.Fatalf("Sync(%s): %v", v.ID, err)
	}
}

type rowKey struct{ table, pk, rk string }

// dump reads every row: whose it is.
func (w *world) dump(t *testing.T) map[rowKey]engine.ID {
	t.Helper()
	rows := map[rowKey]engine.ID{}
	for name, table := range map[string]*tablestore.Table{CatalogTable: w.catalog, RecentTable: w.recent} {
		for row, err := range table.Query(t.Context(), tablestore.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			rows[rowKey{name, row.PartitionKey, row.RowKey}], _ = IDOf(row) // back-references have none
		}
	}
	return rows
}

// model is what dump should show for the truth: with one back-reference per
// video that is listed.
func (w *world) model(t *testing.T) map[rowKey]engine.ID {
	t.Helper()
	rows := map[rowKey]engine.ID{}
	for _, v := range w.Videos() {
		for _, r := range rowsOf(v) {
			rows[rowKey{r.Table, r.Entity.PartitionKey, r.Entity.RowKey}] = v.ID
			rows[rowKey{CatalogTable, "~" + string(v.ID), referenceRow}] = ""
		}
	}
	return rows
}

func newVideo(title, channel string, created time.Time) video.Video {
	return video.Video{
		Meta: engine.Meta{
			ID: engine.NewID(), Channel: channel, State: engine.Processing,
			CreatedAt: created.UTC().Truncate(time.Millisecond),
		},
		Title: title, Visibility: video.Public, DurationSeconds: 12.5, Width: 640, Height: 360,
	}
}

func (w *world) titles(page []engine.ID) []string {
	var out []string
	for _, id := range page {
		out = append(out, w.Videos()[id].Title)
	}
	return out
}
