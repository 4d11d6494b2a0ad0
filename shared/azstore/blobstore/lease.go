package blobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Errors of leases.
var (
	ErrLeaseTaken = errors.New("another holds the lease")
	ErrLeaseLost  = errors.New("the lease is lost")
)

// MinLease is the shortest lease that the service grants. The longest has 60 s.
const MinLease = 15 * time.Second

// BlobLease is the right to a duty, until it ends: leader election. One
// goroutine owns it.
type BlobLease struct {
	store           *Store
	container, name string
	client          *lease.BlobClient
}

// AcquireLease takes the lease of a blob for d, making an empty blob if there is none.
// ErrLeaseTaken. A lost reply does no harm: the repeated request carries the same lease id.
func (s *Store) AcquireLease(ctx context.Context, container, name string, d time.Duration) (*BlobLease, error) {
	client, err := lease.NewBlobClient(s.blob(container, name), nil) // it makes an id
	if err != nil {
		return nil, s.fail("lease", container, name, err)
	}
	seconds := int32(d / time.Second)
	_, err = client.AcquireLease(ctx, seconds, nil)
	if azstore.HasCode(err, bloberror.BlobNotFound) {
		_, err = s.Put(ctx, container, name, nil, Options{IfNoneMatch: true})
		// Another process may have made it, and even leased it.
		if err == nil || errors.Is(err, ErrExists) || errors.Is(err, ErrChanged) {
			_, err = client.AcquireLease(ctx, seconds, nil)
		}
	}
	if azstore.HasCode(err, bloberror.LeaseAlreadyPresent) {
		err = fmt.Errorf("%w: %w", ErrLeaseTaken, err)
	}
	return &BlobLease{store: s, container: container, name: name, client: client}, s.fail("lease", container, name, err)
}

// Renew makes the lease last its whole duration from now. ErrLeaseLost. Safe to
// repeat.
func (l *BlobLease) Renew(ctx context.Context) error {
	_, err := l.client.RenewLease(ctx, nil)
	if gone(err) {
		err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	return l.store.fail("renew lease of", l.container, l.name, err)
}

func gone(err error) bool {
	return azstore.IsConflict(err) || azstore.IsPrecondition(err) || azstore.IsNotFound(err)
}

// Release gives the lease back. One that was lost, or released by an earlier
// try, is fine.
func (l *BlobLease) Release(ctx context.Context) error {
	_, err := l.client.ReleaseLease(ctx, nil)
	if gone(err) {
		return nil
	}
	return l.store.fail("release lease of", l.container, l.name, err)
}
