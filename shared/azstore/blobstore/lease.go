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

// exclusiveMargin is how long before the end of the lease Exclusively's call must have ended.
const exclusiveMargin = 3 * time.Second

// Exclusively waits for the lease of a blob and calls f with it, so that of all processes one at a
// time does so; a container that is missing is made. f has 12 s: a request that is sent when the
// lease has ended could undo what the next caller writes.
func (s *Store) Exclusively(ctx context.Context, container, name string, f func(context.Context) error) error {
	for {
		asked := time.Now()
		var held *BlobLease
		err := s.account.Ensuring(ctx, azstore.Names{Containers: []string{container}}, func() (err error) {
			held, err = s.AcquireLease(ctx, container, name, MinLease)
			return err
		})
		if err == nil {
			ctx, cancel := context.WithDeadline(ctx, asked.Add(MinLease-exclusiveMargin))
			defer cancel()
			defer func() { _ = held.Release(context.WithoutCancel(ctx)) }() // it ends by itself, too
			return f(ctx)
		}
		if !errors.Is(err, ErrLeaseTaken) {
			return err
		}
		if err := azstore.Sleep(ctx, 250*time.Millisecond); err != nil {
			return fmt.Errorf("another holds the lease of %s/%s: %w", container, name, err)
		}
	}
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
