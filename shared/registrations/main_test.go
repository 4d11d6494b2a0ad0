package registrations

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const (
	newYork     = "2011 New York City Marathon__Full"
	marathonKey = Event(newYork)
)

// race is a store of the test's own.
type race struct {
	*Store
	t       *testing.T
	account *azstore.Account
}

func newRace(t *testing.T) *race {
	t.Helper()
	return openRace(t, azuritetest.Account(t))
}

// newCalmRace is for tests that count requests, of which storage that is busy
// makes more.
func newCalmRace(t *testing.T) *race {
	t.Helper()
	return openRace(t, azuritetest.AccountWith(t, func(cfg *azstore.Config) { cfg.Retry = quick }))
}

func openRace(t *testing.T, account *azstore.Account) *race {
	t.Helper()
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{Table}}); err != nil {
		t.Fatal(err)
	}
	return &race{Store: New(account), t: t, account: account}
}

// faulty is the same race seen through a transport that breaks, with the
// retries of retry.
func (r *race) faulty(retry azstore.Retry, choose func(*http.Request) inject.Fault) (*Store, *inject.Transport) {
	r.t.Helper()
	faults := &inject.Transport{Choose: choose}
	account := azuritetest.AccountWith(r.t, func(cfg *azstore.Config) {
		cfg.Prefix, cfg.Retry, cfg.Transport = r.account.Prefix(), retry, faults
	})
	return New(account), faults
}

var quick = azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: time.Millisecond, TryTimeout: 20 * time.Second}

// add registers runners, which must all be taken.
func (r *race) add(list ...Registration) Report {
	r.t.Helper()
	report, err := r.Import(r.t.Context(), marathonKey, rowsFrom(list...))
	if err != nil || report.Refused > 0 {
		r.t.Fatalf("import: %+v, %v", report, err)
	}
	return report
}

// rowsFrom numbers registrations as a file's lines from 1.
func rowsFrom(list ...Registration) func(yield func(Row, error) bool) {
	return func(yield func(Row, error) bool) {
		for i, r := range list {
			if !yield(Row{Line: i + 1, Registration: r}, nil) {
				return
			}
		}
	}
}

// keys are all RowKeys of the marathon's partition, in order.
func (r *race) keys() []string {
	r.t.Helper()
	var keys []string
	for row, err := range r.rows.Query(r.t.Context(), tablestore.Query{PartitionKey: string(marathonKey), Class: tablestore.RowRange}) {
		if err != nil {
			r.t.Fatal(err)
		}
		keys = append(keys, row.RowKey)
	}
	return keys
}

// list follows the pages of a query.
func (r *race) list(ctx context.Context, q Query, limit int) []Registration {
	r.t.Helper()
	var all []Registration
	for token := ""; ; {
		page, next, err := r.List(ctx, marathonKey, q, limit, token)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		token = next
	}
}
