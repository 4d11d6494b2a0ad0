package recipes

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// slow is an account whose requests take some milliseconds more or less, so that those of
// several writers come in any order.
func slow(t *testing.T, seen func(azstore.Try)) *azstore.Account {
	t.Helper()
	return azuritetest.AccountWith(t, func(config *azstore.Config) { config.Transport, config.Seen = delay{http.DefaultClient}, seen })
}

type delay struct{ *http.Client }

func (d delay) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(rand.N(30 * time.Millisecond))
	return d.Client.Do(r)
}

// openTable creates a table.
func openTable(account *azstore.Account, name string) *tablestore.Table {
	check(account.Ensure(context.Background(), azstore.Names{Tables: []string{name}}))
	return tablestore.New(account, name)
}

// work runs clients until the queues of the first are empty.
func work(clients ...*azq.Client) {
	ctx, stop := context.WithTimeout(context.Background(), azuritetest.Patience(time.Minute))
	check(clients[0].Ensure(ctx))
	var running sync.WaitGroup
	for _, client := range clients {
		running.Go(func() { check(client.Run(ctx)) })
	}
	for _, spec := range clients[0].Specs() {
		azuritetest.Poll(time.Minute, func() bool { return must(clients[0].Queue(spec.Name).Length(ctx)).Length == 0 })
	}
	stop()
	running.Wait()
}
