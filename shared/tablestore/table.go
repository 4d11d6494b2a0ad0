package tablestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// Errors that callers act on. The wrapped errors also answer
// azstorage.Describe with the status and code of the service.
var (
	ErrNotFound = errors.New("row not found")
	ErrExists   = errors.New("row exists already")
	ErrChanged  = errors.New("row was changed in the meantime") // the ETag is stale: 412
)

// ErrUnclear comes with ErrChanged and ErrExists when the write was tried more than
// once and the row now has another write id: our earlier try may have been applied
// and then overwritten (paper row Q13). A caller that writes a state may read and
// write again. A caller that adds to a number must first find out whether it did.
var ErrUnclear = errors.New("an earlier try may have been applied")

// AnyETag as ifMatch means: whatever the row's version, but it must exist.
const AnyETag = "*"

// Table is one table. It is safe for concurrent use.
type Table struct {
	client   azstorage.Table
	reported *lru.Cache[string, struct{}] // versions of rows that could not be read
}

// New wraps a client made by azstorage.Account.Table.
func New(client azstorage.Table) *Table {
	reported, err := lru.New[string, struct{}](maxReported)
	if err != nil {
		panic(err) // maxReported is not positive
	}
	client.Account.CountUnreadable(client.Base, 0)
	return &Table{client: client, reported: reported}
}

// decode reads a row and converts the time of its last write.
func (t *Table) decode(text []byte) (Entity, error) {
	e, err := decode(text)
	e.Timestamp = t.client.Account.LocalTime(e.Timestamp)
	return e, err
}

// Get reads one row: a point query, the cheapest there is. ErrNotFound.
func (t *Table) Get(ctx context.Context, pk, rk string) (Entity, error) {
	if err := checkKeys(pk, rk); err != nil {
		return Entity{}, rowError("get", pk, rk, err)
	}
	azstorage.CountQuery(ctx, Point)
	reply, err := t.client.GetEntity(ctx, pk, rk, nil)
	if err != nil {
		return Entity{}, rowError("get", pk, rk, err)
	}
	azstorage.CountRows(ctx, 1)
	e, err := t.decode(reply.Value)
	if err != nil {
		return Entity{}, rowError("get", pk, rk, t.read(ctx, e, nil, err))
	}
	if e.ETag == "" {
		e.ETag = string(reply.ETag)
	}
	return e, nil
}

// Insert adds a row that must not exist and returns its ETag. ErrExists. A lost
// reply is recognised by reading the row back.
func (t *Table) Insert(ctx context.Context, e Entity) (etag string, err error) {
	op := newOpID()
	body, err := encode(e, op)
	if err != nil {
		return "", rowError("insert", e.PartitionKey, e.RowKey, err)
	}
	azstorage.CountQuery(ctx, Point)
	try, tries := azstorage.WithAttempts(ctx)
	reply, err := t.client.AddEntity(try, body, nil)
	if err == nil {
		return string(reply.ETag), nil
	}
	return t.refused(ctx, "insert", e, op, *tries > 1 && azstorage.IsConflict(err), err)
}

// Upsert writes a row whatever was there, dropping properties that e does not
// have, and returns its ETag. Safe to repeat.
func (t *Table) Upsert(ctx context.Context, e Entity) (etag string, err error) {
	body, err := encode(e, newOpID())
	if err != nil {
		return "", rowError("upsert", e.PartitionKey, e.RowKey, err)
	}
	azstorage.CountQuery(ctx, Point)
	reply, err := t.client.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	if err != nil {
		return "", rowError("upsert", e.PartitionKey, e.RowKey, err)
	}
	return string(reply.ETag), nil
}

// Update replaces a row that must exist in the version ifMatch, or in any with
// AnyETag, and returns its new ETag. ErrChanged, ErrNotFound. A lost reply is
// recognised by reading the row back.
func (t *Table) Update(ctx context.Context, e Entity, ifMatch string) (etag string, err error) {
	return t.update(ctx, e, ifMatch, aztables.UpdateModeReplace)
}

// Merge is Update that keeps properties which e does not have.
func (t *Table) Merge(ctx context.Context, e Entity, ifMatch string) (etag string, err error) {
	return t.update(ctx, e, ifMatch, aztables.UpdateModeMerge)
}

func (t *Table) update(ctx context.Context, e Entity, ifMatch string, mode aztables.UpdateMode) (string, error) {
	op := newOpID()
	body, err := encode(e, op)
	if err != nil {
		return "", rowError("update", e.PartitionKey, e.RowKey, err)
	}
	azstorage.CountQuery(ctx, Point)
	try, tries := azstorage.WithAttempts(ctx)
	reply, err := t.client.UpdateEntity(try, body, &aztables.UpdateEntityOptions{IfMatch: etagOf(ifMatch), UpdateMode: mode})
	if err == nil {
		return string(reply.ETag), nil
	}
	return t.refused(ctx, "update", e, op, *tries > 1 && azstorage.IsPrecondition(err), err)
}

// refused returns the error of a write or, when it may have met its own earlier
// try, finds out whether it did.
func (t *Table) refused(ctx context.Context, verb string, e Entity, op string, own bool, err error) (etag string, _ error) {
	if own {
		if etag, ok := t.ownWrite(ctx, e, op); ok {
			return etag, nil
		}
		err = fmt.Errorf("%w: %w", ErrUnclear, err)
	}
	return "", rowError(verb, e.PartitionKey, e.RowKey, err)
}

// Delete removes a row in the version ifMatch, or in any with AnyETag.
// ErrChanged; ErrNotFound when the row was not there at the first try.
func (t *Table) Delete(ctx context.Context, pk, rk, ifMatch string) error {
	if err := checkKeys(pk, rk); err != nil {
		return rowError("delete", pk, rk, err)
	}
	azstorage.CountQuery(ctx, Point)
	try, tries := azstorage.WithAttempts(ctx)
	_, err := t.client.DeleteEntity(try, pk, rk, &aztables.DeleteEntityOptions{IfMatch: etagOf(ifMatch)})
	if err != nil && *tries > 1 && azstorage.HasCode(err, azstorage.CodeResourceNotFound) {
		return nil // our own earlier try did it
	}
	if err != nil {
		return rowError("delete", pk, rk, err)
	}
	return nil
}

// ownWrite reports whether the row has our write id, and returns its ETag.
func (t *Table) ownWrite(ctx context.Context, e Entity, op string) (etag string, ok bool) {
	now, err := t.Get(ctx, e.PartitionKey, e.RowKey)
	if err != nil || now.opID != op {
		return "", false
	}
	return now.ETag, true
}

func etagOf(ifMatch string) *azcore.ETag {
	if ifMatch == "" {
		ifMatch = AnyETag
	}
	return to.Ptr(azcore.ETag(ifMatch))
}

func newOpID() string {
	var raw [12]byte
	_, _ = rand.Read(raw[:]) // never fails since Go 1.24
	return hex.EncodeToString(raw[:])
}

// rowError names the row and adds the sentinel that belongs to the reply.
func rowError(verb, pk, rk string, err error) error {
	if sentinel := sentinelOf(err); sentinel != nil {
		return fmt.Errorf("%s row %q/%q: %w: %w", verb, pk, rk, sentinel, err)
	}
	return fmt.Errorf("%s row %q/%q: %w", verb, pk, rk, err)
}

// sentinelOf maps a reply to an error that callers act on. A missing table is
// not a missing row.
func sentinelOf(err error) error {
	switch {
	case azstorage.HasCode(err, azstorage.CodeEntityAlreadyExists):
		return ErrExists
	case azstorage.IsPrecondition(err):
		return ErrChanged
	case azstorage.HasCode(err, azstorage.CodeResourceNotFound, "EntityNotFound"):
		return ErrNotFound
	}
	return nil
}
