package azstore_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// What a context's calls send is counted by kind, as the price lists have it.
func TestCounterCountsByKind(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"box"}, Queues: []string{"line"}, Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("x"), 5000)
	for name, c := range map[string]struct {
		do   func(ctx context.Context) error
		want map[azstore.RequestKind]int
	}{
		"blobs": {func(ctx context.Context) error { return useBlobs(ctx, blobstore.New(a), content) },
			map[azstore.RequestKind]int{"blob.write": 1, "blob.read": 4, "blob.list": 1, "blob.delete": 1}},
		"queues": {func(ctx context.Context) error { return useQueue(ctx, a.Queue("line")) },
			map[azstore.RequestKind]int{"queue.write": 3, "queue.read": 2, "queue.delete": 1}},
		"tables": {func(ctx context.Context) error { return useTable(ctx, tablestore.New(a, "rows")) },
			map[azstore.RequestKind]int{"table.write": 2, "table.read": 1, "table.list": 1, "table.delete": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, counter := azstore.WithCounter(t.Context())
			if err := c.do(ctx); err != nil {
				t.Fatal(err)
			}
			got := counter.Counts()
			if diff := cmp.Diff(c.want, got.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got.Sent == 0 || got.Received == 0 {
				t.Errorf("%d bytes sent, %d received: want some", got.Sent, got.Received)
			}
			if name == "blobs" && (got.Sent != int64(len(content)) || got.Received < int64(len(content))) {
				t.Errorf("%d bytes sent, %d received: want %d, and at least as many", got.Sent, got.Received, len(content))
			}
		})
	}
}

func useBlobs(ctx context.Context, blobs *blobstore.Store, content []byte) error {
	if _, err := blobs.Put(ctx, "box", "a", content, blobstore.Options{}); err != nil {
		return err
	}
	if _, err := blobs.Head(ctx, "box", "a"); err != nil {
		return err
	}
	body, _, err := blobs.Open(ctx, "box", "a", blobstore.Range{}, "")
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	_ = body.Close()
	lease, err := blobs.AcquireLease(ctx, "box", "a", blobstore.MinLease)
	if err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	for _, err := range blobs.List(ctx, "box", "") {
		if err != nil {
			return err
		}
	}
	_, err = blobs.Delete(ctx, "box", "a", "")
	return err
}

func useQueue(ctx context.Context, queue *azqueue.QueueClient) error {
	if _, err := queue.EnqueueMessage(ctx, "hello", nil); err != nil {
		return err
	}
	if _, err := queue.PeekMessage(ctx, nil); err != nil {
		return err
	}
	if _, err := queue.GetProperties(ctx, nil); err != nil {
		return err
	}
	got, err := queue.DequeueMessage(ctx, nil)
	if err != nil {
		return err
	}
	m := got.Messages[0]
	renewed, err := queue.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, "hello", nil)
	if err != nil {
		return err
	}
	_, err = queue.DeleteMessage(ctx, *m.MessageID, *renewed.PopReceipt, nil)
	return err
}

func useTable(ctx context.Context, table *tablestore.Table) error {
	e := tablestore.Entity{PartitionKey: "p", RowKey: "a", Props: map[string]any{"Text": strings.Repeat("y", 100)}}
	if _, err := table.Insert(ctx, e); err != nil {
		return err
	}
	e.RowKey = "b"
	other := e
	other.RowKey = "c"
	// A transaction is one request, whatever it holds.
	if _, err := table.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpInsert, Entity: e}, {Kind: tablestore.OpInsert, Entity: other}}); err != nil {
		return err
	}
	if _, err := table.Get(ctx, "p", "a"); err != nil {
		return err
	}
	for _, err := range table.Query(ctx, tablestore.Query{PartitionKey: "p", Class: tablestore.PartitionRange}) {
		if err != nil {
			return err
		}
	}
	return table.Delete(ctx, "p", "a", "*")
}

// Every try is a request that the service may have served.
func TestCounterCountsEveryTry(t *testing.T) {
	t.Parallel()
	same := azuritetest.Account(t)
	if err := same.Ensure(t.Context(), azstore.Names{Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	faults := &inject.Transport{Choose: inject.Once(inject.ServerBusy, 1, func(r *http.Request) bool { return r.Method == http.MethodGet })}
	a := azuritetest.AccountWith(t, func(cfg *azstore.Config) { cfg.Prefix, cfg.Transport = same.Prefix(), faults })
	ctx, counter := azstore.WithCounter(t.Context())
	_, err := tablestore.New(a, "rows").Get(ctx, "p", "missing")
	if !azstore.IsNotFound(err) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[azstore.RequestKind]int{"table.read": 2}, counter.Counts().Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
