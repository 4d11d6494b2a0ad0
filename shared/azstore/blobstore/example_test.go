package blobstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
)

// scans is an empty container on the emulator.
func scans() *blobstore.Store {
	account := azuritetest.Example()
	if err := account.Ensure(context.Background(), azstore.Names{Containers: []string{"scans"}}); err != nil {
		panic(err)
	}
	return blobstore.New(account)
}

// A blob is written once, and read in part with the version that was written.
func ExampleStore_Put() {
	ctx, blobs := context.Background(), scans()
	once := blobstore.Options{ContentType: "text/plain", IfNoneMatch: true}
	etag, err := blobs.Put(ctx, "scans", "ada/7.txt", []byte("Dear Ada"), once)
	if err != nil {
		panic(err)
	}
	_, err = blobs.Put(ctx, "scans", "ada/7.txt", []byte("Dear Bob"), once)
	fmt.Println(errors.Is(err, blobstore.ErrExists))

	body, info, err := blobs.Open(ctx, "scans", "ada/7.txt", blobstore.Range{Offset: 5}, etag)
	if err != nil {
		panic(err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body) // goes on where a connection breaks
	fmt.Println(string(text), info.Size, err)
	// Output:
	// true
	// Ada 3 <nil>
}

// Of all processes that want to do a duty, one holds the lease of a blob. It renews the lease
// while it works, and stops when it has lost it.
func ExampleStore_AcquireLease() {
	ctx, blobs := context.Background(), scans()
	lease, err := blobs.AcquireLease(ctx, "scans", "duty", blobstore.MinLease)
	if err != nil {
		panic(err)
	}
	_, err = blobs.AcquireLease(ctx, "scans", "duty", blobstore.MinLease)
	fmt.Println("another:", errors.Is(err, blobstore.ErrLeaseTaken))
	fmt.Println("renewed:", lease.Renew(ctx))
	fmt.Println("given back:", lease.Release(ctx))
	fmt.Println("lost:", errors.Is(lease.Renew(ctx), blobstore.ErrLeaseLost))
	// Output:
	// another: true
	// renewed: <nil>
	// given back: <nil>
	// lost: true
}
