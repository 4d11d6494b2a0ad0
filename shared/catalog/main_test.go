package catalog

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// world is a truth and the lists made from it.
type world struct {
	*Catalog
	account *azstorage.Account

	mu     sync.Mutex
	videos map[video.ID]video.Video
}

func newWorld(t *testing.T) *world {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), nil, nil, []string{CatalogTable, RecentTable}); err != nil {
		t.Fatal(err)
	}
	return &world{Catalog: New(account), account: account, videos: map[video.ID]video.Video{}}
}

// faulty is the same world seen through a transport that breaks.
func (w *world) faulty(t *testing.T, choose func(*http.Request) azuritetest.Fault) *Catalog {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	account := azuritetest.AccountWith(t, func(cfg *azstorage.Config) {
		cfg.Prefix = w.account.Prefix()
		cfg.Retry = azstorage.Retry{Strategy: azstorage.NoRetry}
		cfg.Transport = &azuritetest.Faults{Choose: choose, Next: &http.Client{Transport: transport}}
	})
	return New(account)
}

func (w *world) put(v video.Video) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.videos[v.ID] = v
}

func (w *world) gone(id video.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.videos, id)
}

func (w *world) current(id video.ID) func(context.Context) (video.Video, bool, error) {
	return func(context.Context) (video.Video, bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		v, ok := w.videos[id]
		return v, ok, nil
	}
}

func (w *world) sync(t *testing.T, v video.Video) {
	t.Helper()
	w.put(v)
	if err := w.Sync(t.Context(), v.ID, w.current(v.ID)); err != nil {
		t.Fatalf("Sync(%s): %v", v.ID, err)
	}
}

type rowKey struct{ table, pk, rk string }

// dump reads every row. Months stay for ever and are left out.
func (w *world) dump(t *testing.T) map[rowKey]Summary {
	t.Helper()
	rows := map[rowKey]Summary{}
	for name, table := range map[string]*tablestore.Table{CatalogTable: w.catalog, RecentTable: w.recent} {
		for row, err := range table.Query(t.Context(), tablestore.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if row.PartitionKey != monthsKey {
				rows[rowKey{name, row.PartitionKey, row.RowKey}] = SummaryFrom(row)
			}
		}
	}
	return rows
}

// model is what dump should show for the truth: with one back-reference per
// video that is listed.
func (w *world) model(t *testing.T) map[rowKey]Summary {
	t.Helper()
	rows := map[rowKey]Summary{}
	for _, v := range w.videos {
		list, err := rowsOf(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			rows[rowKey{r.Table, r.Entity.PartitionKey, r.Entity.RowKey}] = SummaryOf(v)
			rows[rowKey{CatalogTable, "~" + string(v.ID), referenceRow}] = Summary{}
		}
	}
	return rows
}

func newVideo(title, channel string, created time.Time) video.Video {
	return video.Video{
		ID: video.NewID(), Title: title, Channel: channel, Visibility: video.Public, State: video.Processing,
		DurationSeconds: 12.5, Width: 640, Height: 360, CreatedAt: created.UTC().Truncate(time.Millisecond),
	}
}

func titles(page []Summary) []string {
	var out []string
	for _, s := range page {
		out = append(out, s.Title)
	}
	return out
}
