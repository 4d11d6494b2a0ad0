package tablestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Errors that callers act on. azstore.Describe has the service's status and code.
var (
	ErrNotFound = errors.New("row not found")
	ErrExists   = errors.New("row exists already")
	ErrChanged  = errors.New("row was changed in the meantime") // the ETag is stale: 412
)

// Overtaken reports whether a write or a transaction failed because another writer was
// there first: ErrNotFound, ErrExists or ErrChanged.
func Overtaken(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrChanged)
}

// IgnoreNotFound returns nil for ErrNotFound, and another error as it is.
func IgnoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// ErrUnclear comes with ErrChanged and ErrExists when the write was tried more than
// once and the row now has another write id: our earlier try may have been applied
// and then overwritten (paper row Q13). A caller that writes a state may read and
// write again. A caller that adds to a number must first find out whether it did.
var ErrUnclear = errors.New("an earlier try may have been applied")

// AnyETag as ifMatch means: whatever the row's version, but it must exist.
const AnyETag = "*"

// Table is one table. It is safe for concurrent use.
type Table struct {
	account  *azstore.Account
	base     string // its name without the prefix
	client   *aztables.Client
	reported sync.Map // versions of rows that could not be read
}

// New returns a table of an account, given its base name. It makes no request.
func New(a *azstore.Account, base string) *Table {
	a.CountUnreadable(base, 0)
	return &Table{account: a, base: base, client: a.Table(base)}
}

// Get reads one row: a point query, the cheapest there is. ErrNotFound.
func (t *Table) Get(ctx context.Context, pk, rk string) (Entity, error) {
	action := fmt.Sprintf("get row %q/%q", pk, rk)
	if err := checkKeys(pk, rk); err != nil {
		return Entity{}, t.failed(action, err)
	}
	azstore.CountQuery(ctx, Point)
	reply, err := t.client.GetEntity(ctx, pk, rk, nil)
	if err != nil {
		return Entity{}, t.failed(action, err)
	}
	azstore.CountRows(ctx, 1)
	e, err := t.decode(reply.Value)
	if err != nil {
		return Entity{}, t.failed(action, t.judge(ctx, e, err))
	}
	e.ETag = cmp.Or(e.ETag, string(reply.ETag))
	return e, nil
}

// Insert adds a row that must not exist and returns its ETag. ErrExists. A lost
// reply is recognised by reading the row back.
func (t *Table) Insert(ctx context.Context, e Entity) (etag string, err error) {
	return t.write(ctx, Op{Kind: OpInsert, Entity: e})
}

// Upsert writes a row whatever was there, dropping properties that e does not
// have, and returns its ETag. Safe to repeat.
func (t *Table) Upsert(ctx context.Context, e Entity) (etag string, err error) {
	return t.write(ctx, Op{Kind: OpUpsert, Entity: e})
}

// Update replaces a row that must exist in the version ifMatch, or in any with AnyETag, and
// returns its new ETag. ErrChanged, ErrNotFound. Lost replies: as for Insert.
func (t *Table) Update(ctx context.Context, e Entity, ifMatch string) (etag string, err error) {
	return t.write(ctx, Op{Kind: OpReplace, Entity: e, IfMatch: ifMatch})
}

// Put is Update of the version that was read, or Insert if version is empty: there was none.
func (t *Table) Put(ctx context.Context, e Entity, version string) (etag string, err error) {
	return t.write(ctx, Over(e, version))
}

// Merge is Update that keeps properties which e does not have.
func (t *Table) Merge(ctx context.Context, e Entity, ifMatch string) (etag string, err error) {
	return t.write(ctx, Op{Kind: OpMerge, Entity: e, IfMatch: ifMatch})
}

func (t *Table) write(ctx context.Context, op Op) (etag string, err error) {
	writeID := rand.Text()
	body, err := encode(op.Entity, writeID)
	if err != nil {
		return "", t.failed(op.String(), err)
	}
	azstore.CountQuery(ctx, Point)
	try, counter := azstore.WithCounter(ctx)
	etag, err = t.send(try, op, body)
	if err != nil && counter.Requests() > 1 {
		var own []string
		if own, err = t.ownTry(ctx, []Op{op}, writeID, err); err == nil {
			etag = own[0]
		}
	}
	return etag, t.failed(op.String(), err)
}

func (t *Table) send(ctx context.Context, op Op, body []byte) (etag string, err error) {
	mode := aztables.UpdateModeReplace
	switch op.Kind {
	case OpInsert:
		reply, err := t.client.AddEntity(ctx, body, nil)
		return string(reply.ETag), err
	case OpUpsert:
		reply, err := t.client.UpsertEntity(ctx, body, &aztables.UpsertEntityOptions{UpdateMode: mode})
		return string(reply.ETag), err
	case OpDelete:
		_, err := t.client.DeleteEntity(ctx, op.Entity.PartitionKey, op.Entity.RowKey, &aztables.DeleteEntityOptions{IfMatch: etagOf(op.IfMatch)})
		return "", err
	case OpMerge:
		mode = aztables.UpdateModeMerge
	}
	reply, err := t.client.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{IfMatch: etagOf(op.IfMatch), UpdateMode: mode})
	return string(reply.ETag), err
}

// Delete removes a row in the version ifMatch, or in any with AnyETag. ErrChanged. A missing row
// is no error, so it may be repeated.
func (t *Table) Delete(ctx context.Context, pk, rk, ifMatch string) error {
	_, err := t.write(ctx, Op{Kind: OpDelete, Entity: Entity{PartitionKey: pk, RowKey: rk}, IfMatch: ifMatch})
	return IgnoreNotFound(err)
}

func etagOf(ifMatch string) *azcore.ETag { return new(azcore.ETag(cmp.Or(ifMatch, AnyETag))) }

// failed adds what failed in which table, and the reply's sentinel. A missing table is not a
// missing row. No error stays none.
func (t *Table) failed(action string, err error) error {
	switch {
	case err == nil:
		return nil
	case azstore.HasCode(err, aztables.EntityAlreadyExists):
		err = fmt.Errorf("%w: %w", ErrExists, err)
	case azstore.IsPrecondition(err):
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	case azstore.HasCode(err, aztables.ResourceNotFound, aztables.EntityNotFound):
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return fmt.Errorf("table %s: %s: %w", t.base, action, err)
}
