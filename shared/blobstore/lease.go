package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// ErrLeaseTaken says that somebody else holds the lease.
var ErrLeaseTaken = errors.New("blob lease is held by someone else")

// BlobLease is a lock on a blob that ends by itself: leader election.
type BlobLease struct{ client *lease.BlobClient }

// AcquireLease takes the lease of a blob for d, 15 s to 60 s, making an empty
// blob if there is none. Returns ErrLeaseTaken when it is held.
func (s *Store) AcquireLease(ctx context.Context, container, name string, d time.Duration) (*BlobLease, error) {
	var target *blockblob.Client = s.block(container, name)
	client, err := lease.NewBlobClient(target, nil)
	if err != nil {
		return nil, fmt.Errorf("acquire lease on %s: %w", name, err)
	}
	for {
		_, err = client.AcquireLease(ctx, int32(d/time.Second), nil)
		switch {
		case err == nil:
			return &BlobLease{client: client}, nil
		case azstorage.HasCode(err, "LeaseAlreadyPresent"):
			return nil, ErrLeaseTaken
		case !azstorage.IsNotFound(err):
			return nil, fmt.Errorf("acquire lease on %s: %w", name, classify(err))
		}
		_, err = s.Put(ctx, container, name, bytes.NewReader(nil), 0, Options{IfNoneMatch: true})
		if err != nil && !errors.Is(err, ErrExists) {
			return nil, fmt.Errorf("make a blob to lease: %w", err)
		}
	}
}

// Renew starts the lease's time again. An error means that it may be lost.
func (l *BlobLease) Renew(ctx context.Context) error {
	if _, err := l.client.RenewLease(ctx, nil); err != nil {
		return fmt.Errorf("renew lease: %w", classify(err))
	}
	return nil
}

// Release gives the lease back. One that is lost already is no error.
func (l *BlobLease) Release(ctx context.Context) error {
	if _, err := l.client.ReleaseLease(ctx, nil); err != nil && !azstorage.IsConflict(err) {
		return fmt.Errorf("release lease: %w", classify(err))
	}
	return nil
}
