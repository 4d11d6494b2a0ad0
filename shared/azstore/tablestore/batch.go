package tablestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/internal/batch"
)

// OpKind is what an operation of a transaction does to its row.
type OpKind = aztables.TransactionType

// The kinds. OpReplace, OpMerge and OpDelete want
// the row to exist, in the version Op.IfMatch if that is set.
const (
	OpInsert  = aztables.TransactionTypeAdd           // the row must not exist
	OpUpsert  = aztables.TransactionTypeInsertReplace // write the row whatever was there
	OpReplace = aztables.TransactionTypeUpdateReplace // write the row, dropping other properties
	OpMerge   = aztables.TransactionTypeUpdateMerge   // write some properties, keeping the others
	OpDelete  = aztables.TransactionTypeDelete
)

// Op is one operation of a transaction.
type Op struct {
	Kind    OpKind
	Entity  Entity // of a delete, the keys count only
	IfMatch string // ETag; "" or AnyETag: any version
}

// Over is the operation that writes a row over the version that was read; there was none if
// version is empty.
func Over(e Entity, version string) Op {
	if version == "" {
		return Op{Kind: OpInsert, Entity: e}
	}
	return Op{Kind: OpReplace, Entity: e, IfMatch: version}
}

// Submit runs one entity-group transaction: all of ops or none (paper row T2).
// It returns the new ETag of every operation, "" for deletes.
//
// It returns ErrLimit, and sends nothing, for operations on more than one partition,
// more than MaxBatchOps operations, more than 4 MiB, a row named twice, and a row over a
// limit of its own. When the service refuses, none of it was done: the error names the
// operation and has its sentinel. A lost reply is recognised by reading a row back (row Q13).
func (t *Table) Submit(ctx context.Context, ops []Op) (etags []string, err error) {
	writeID := rand.Text()
	all, err := plan(ops, writeID)
	if err == nil && len(all) != 1 {
		err = limitf("%d operations are %d transactions: want one partition, each row once, at most %d operations and %d bytes",
			len(ops), len(all), MaxBatchOps, maxBatchBytes)
	}
	if err != nil {
		return nil, t.failed("transaction", err)
	}
	return t.submit(ctx, all[0], writeID)
}

func (t *Table) submit(ctx context.Context, all *transaction, writeID string) (etags []string, err error) {
	azstore.CountQuery(ctx, Point)
	try, counter := azstore.WithCounter(ctx)
	var reply *http.Response
	_, err = t.client.SubmitTransaction(policy.WithCaptureResponse(try, &reply), all.actions, nil)
	if err == nil {
		replies, err := batch.Replies(reply)
		if err != nil {
			return nil, fmt.Errorf("table transaction: done, but its reply is unreadable: %w", err)
		}
		etags = make([]string, len(all.ops))
		for i := range min(len(etags), len(replies)) {
			etags[i] = replies[i].ETag
		}
		return etags, nil
	}
	if counter.Requests() > 1 {
		if etags, err = t.ownTry(ctx, all.ops, writeID, err); err == nil {
			return etags, nil
		}
	}
	action := "transaction"
	if i := failedOp(all.ops, err); i >= 0 {
		action += fmt.Sprintf(": operation %d, %s", i, all.ops[i])
	}
	return nil, t.failed(action, err)
}

// String names the operation and the row.
func (op Op) String() string {
	return fmt.Sprintf("%s row %q/%q", op.Kind, op.Entity.PartitionKey, op.Entity.RowKey)
}

// failedOp is the index of the operation that failed, or −1 when the service did not say.
func failedOp(ops []Op, err error) int {
	reply, inside := batch.Failure(err)
	if inside && len(ops) == 1 {
		return 0
	}
	if inside && reply.Index < len(ops) {
		return reply.Index
	}
	return -1
}

// transaction is operations that fit one entity-group transaction.
type transaction struct {
	ops     []Op
	actions []aztables.TransactionAction
	size    int // of the request in bytes, never too low
}

// plan checks and encodes operations and cuts them into as few transactions as possible, in
// their order. A row named twice starts a new one, so that the last operation wins.
func plan(ops []Op, writeID string) (all []*transaction, _ error) {
	var now *transaction
	for i, op := range ops {
		if op.Kind == OpDelete {
			op.Entity.Props = nil
		}
		body, err := encode(op.Entity, writeID)
		if err != nil {
			return nil, fmt.Errorf("operation %d, %s: %w", i, op, err)
		}
		action := aztables.TransactionAction{ActionType: op.Kind, Entity: body, IfMatch: etagOf(op.IfMatch)}
		if op.Kind == OpUpsert {
			action.IfMatch = nil // with an ETag it would be a replace
		}
		// The row, the keys once more in the address, and headers.
		size := len(body) + 3*(len(op.Entity.PartitionKey)+len(op.Entity.RowKey)) + 1024
		if now == nil || !now.takes(op, size) {
			now = &transaction{}
			all = append(all, now)
		}
		now.ops, now.actions, now.size = append(now.ops, op), append(now.actions, action), now.size+size
	}
	return all, nil
}

func (t *transaction) takes(op Op, size int) bool {
	return len(t.ops) < MaxBatchOps && t.size+size <= maxBatchBytes && !slices.ContainsFunc(t.ops, func(other Op) bool {
		return other.Entity.PartitionKey != op.Entity.PartitionKey || other.Entity.RowKey == op.Entity.RowKey
	})
}

// ownTry decides, after a repeated write or transaction was refused, whether an earlier try
// of ours had succeeded. A transaction is atomic, so one row with our write id proves all of
// it. If it has deletes only, the proof is that all rows are gone.
func (t *Table) ownTry(ctx context.Context, ops []Op, writeID string, refused error) (etags []string, _ error) {
	overtaken := azstore.IsConflict(refused) || azstore.IsPrecondition(refused)
	if !overtaken && !azstore.IsNotFound(refused) {
		return nil, refused
	}
	etags = make([]string, len(ops))
	own, writes, gone := false, 0, true
	for i, op := range ops {
		now, err := t.Get(ctx, op.Entity.PartitionKey, op.Entity.RowKey)
		if op.Kind == OpDelete {
			gone = gone && errors.Is(err, ErrNotFound)
			continue
		}
		writes++
		if err == nil && now.writeID == writeID {
			etags[i], own = now.ETag, true
		}
	}
	switch {
	case own || writes == 0 && gone:
		return etags, nil
	case overtaken:
		return nil, fmt.Errorf("%w: %w", ErrUnclear, refused)
	}
	return nil, refused
}

// SubmitAll runs any number of operations in as few transactions as possible, those of each
// partition in their order. Only each transaction is atomic, so it takes only upserts and
// deletes: all of them may be repeated. Deleting a missing row is no error.
func (t *Table) SubmitAll(ctx context.Context, ops []Op) error {
	for i, op := range ops {
		if (op.Kind != OpUpsert && op.Kind != OpDelete) || (op.IfMatch != "" && op.IfMatch != AnyETag) {
			return fmt.Errorf("table %s: transactions: operation %d is a conditional %s: want upserts and deletes", t.base, i, op.Kind)
		}
	}
	ops = slices.SortedStableFunc(slices.Values(ops), func(a, b Op) int {
		return strings.Compare(a.Entity.PartitionKey, b.Entity.PartitionKey)
	})
	writeID := rand.Text()
	all, err := plan(ops, writeID)
	if err != nil {
		return t.failed("transactions", err)
	}
	for _, transaction := range all {
		if err := t.submitTolerant(ctx, transaction, writeID); err != nil {
			return err
		}
	}
	return nil
}

// submitTolerant drops deletes of rows that are gone and tries again.
func (t *Table) submitTolerant(ctx context.Context, all *transaction, writeID string) error {
	for len(all.ops) > 0 {
		_, err := t.submit(ctx, all, writeID)
		i := failedOp(all.ops, err)
		if !errors.Is(err, ErrNotFound) || i < 0 || all.ops[i].Kind != OpDelete {
			return err
		}
		all.ops, all.actions = slices.Delete(all.ops, i, i+1), slices.Delete(all.actions, i, i+1)
	}
	return nil
}

// Clear removes all rows that a query selects, a page at a time, and returns how many. Rows
// that are inserted meanwhile may stay. Safe to repeat. Errors: those of Page and SubmitAll.
func (t *Table) Clear(ctx context.Context, query Query) (removed int, _ error) {
	query.Select = []string{"RowKey"}
	for token := ""; ; {
		rows, next, err := t.Page(ctx, query, token)
		if err != nil {
			return removed, err
		}
		ops := make([]Op, len(rows))
		for i, row := range rows {
			ops[i] = Op{Kind: OpDelete, Entity: row}
		}
		if err := t.SubmitAll(ctx, ops); err != nil {
			return removed, err
		}
		removed += len(rows)
		if token = next; token == "" {
			return removed, nil
		}
	}
}
