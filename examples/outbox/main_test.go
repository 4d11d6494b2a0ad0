package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestAnOrderIsPacked(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), azuritetest.Account(t), &out); err != nil {
		t.Fatal(err)
	}
	if want := "pack order 7\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
}

func open(account *azstore.Account) (*tablestore.Table, *azq.Client) {
	return tablestore.New(account, "outbox"), azq.Open(account, azq.Options{Queues: []azq.Spec{{Name: "outbox"}}})
}

// A process dies at each of its requests in turn, before or after the service has done what it
// asked for. The relay of another one then sends what it has left.
func TestOrderAndMessageCannotPart(t *testing.T) {
	t.Parallel()
	for _, fault := range []inject.Fault{inject.Reset, inject.LostReply} {
		for at, died := 0, true; died; at++ {
			account := azuritetest.Account(t)
			orders, client := open(account)
			err := errors.Join(client.Ensure(t.Context()), account.Ensure(t.Context(), azstore.Names{Tables: []string{"outbox"}}))
			if err != nil {
				t.Fatal(err)
			}
			dyingOrders, dyingClient := open(azuritetest.FaultyAccount(t, account, inject.DiesAt(at, fault)))
			err = place(t.Context(), dyingOrders, placed{"shop", "7"})
			if err == nil {
				err = relay(t.Context(), dyingOrders, dyingClient, "shop")
			}
			died = err != nil
			if err := relay(t.Context(), orders, client, "shop"); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s at request %d", fault, at)
			rows, err := orders.First(t.Context(), tablestore.Query{PartitionKey: "shop"}, 10)
			if err != nil {
				t.Fatal(err)
			}
			sent, err := client.Queue("outbox").Length(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) > 1 || len(rows) == 0 && sent.Length > 0 || len(rows) == 1 && sent.Length == 0 {
				t.Errorf("%s: %d rows, %d messages", name, len(rows), sent.Length)
			}
			if !died && at < 4 {
				t.Errorf("%s: nothing died", name)
			}
		}
	}
}
