package searchindex

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/indexrowstest"
	"github.com/cutroom/cutroom/shared/video"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// world is a truth and the index made from it.
type world struct {
	*Index
	account *azstore.Account

	indexrowstest.Truth
}

func newWorld(t testing.TB) *world {
	t.Helper()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: Tables}); err != nil {
		t.Fatal(err)
	}
	return &world{Index: New(account), account: account}
}

// faulty is the same world seen through a transport that breaks.
func (w *world) faulty(t *testing.T, choose func(*http.Request) inject.Fault) *Index {
	t.Helper()
	return New(azuritetest.FaultyAccount(t, w.account, choose))
}

func (w *world) sync(t testing.TB, v video.Video) {
	t.Helper()
	w.Put(v)
	if err := w.Sync(t.Context(), v.ID, w.Current(v.ID)); err != nil {
		t.Fatalf("Sync(%s): %v", v.ID, err)
	}
}

// rowKey names a row of any of the tables.
type rowKey struct{ table, pk, rk string }

func (w *world) dump(t testing.TB) map[rowKey]any {
	t.Helper()
	rows := map[rowKey]any{}
	for name, table := range map[string]*tablestore.Table{TermsTable: w.terms, PostingsTable: w.postings, VariantsTable: w.variants} {
		for row, err := range table.Query(t.Context(), tablestore.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			rows[rowKey{name, row.PartitionKey, row.RowKey}] = content(name, row)
		}
	}
	return rows
}

func content(table string, row tablestore.Entity) any {
	switch {
	case table != PostingsTable:
		return row.String("Term")
	case row.RowKey == textRow:
		return row.String("Description")
	}
	posting, _ := readPosting(row) // back-references have none
	return posting
}

// model is what dump should show.
func (w *world) model(t testing.TB) map[rowKey]any {
	t.Helper()
	rows := map[rowKey]any{}
	for _, v := range w.Videos() {
		for _, r := range rowsOf(v) {
			e := r.Entity
			rows[rowKey{r.Table, e.PartitionKey, e.RowKey}] = content(r.Table, e)
			rows[rowKey{r.Table, videoKey(v.ID), referenceRow}] = document{}
			if term, ok := termOf(e.PartitionKey); ok {
				pk, rk := termKeys(term)
				rows[rowKey{TermsTable, pk, rk}] = term
				for _, variant := range variantsOf(term) {
					rows[rowKey{VariantsTable, variant.PartitionKey, variant.RowKey}] = term
				}
			}
		}
	}
	return rows
}

// scan answers a query without an index.
func (w *world) scan(t testing.TB, q Query) []engine.ID {
	t.Helper()
	c, err := parse(q)
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, v := range w.Videos() {
		if !v.Searchable() || len(c) == 0 {
			continue
		}
		d, texts := documentOf(v)
		ok := true
		for _, clause := range c {
			ok = ok && anyOf(clause.field, func(f field) bool { return clause.in(texts[f], d.Language) })
		}
		if ok {
			places = append(places, catalog.Place(v.CreatedAt, v.ID))
		}
	}
	slices.Sort(places)
	ids := []engine.ID{}
	for _, p := range places {
		_, id, _ := strings.Cut(p, "__")
		ids = append(ids, engine.ID(id))
	}
	return ids
}

// pages reads all pages of a search.
func (w *world) pages(t testing.TB, q Query, limit int) []engine.ID {
	t.Helper()
	ids := []engine.ID{}
	for token := ""; ; {
		r, err := w.Search(t.Context(), q, limit, token)
		if err != nil {
			t.Fatalf("Search(%+v): %v", q, err)
		}
		ids = append(ids, r.Hits...)
		if token = r.Next; token == "" {
			return ids
		}
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newVideo(title string, age time.Duration) video.Video {
	return video.Video{
		Meta:  engine.Meta{ID: engine.NewID(), Channel: "c", State: engine.Ready, CreatedAt: start.Add(-age)},
		Title: title, Visibility: video.Public, DurationSeconds: 1,
	}
}
