package tablestore

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// OpKind is what one operation of a transaction does to its row.
type OpKind string

// The operations. OpReplace, OpMerge and OpDelete want the row to exist, in the
// version Op.IfMatch if that is set.
const (
	OpInsert  OpKind = "insert"  // the row must not exist
	OpUpsert  OpKind = "upsert"  // write the row whatever was there
	OpReplace OpKind = "replace" // write the row, dropping other properties
	OpMerge   OpKind = "merge"   // write some properties, keeping the others
	OpDelete  OpKind = "delete"
)

// Op is one operation of a transaction.
type Op struct {
	Kind    OpKind
	Entity  Entity // of a delete, the keys count only
	IfMatch string // ETag; "" or AnyETag: any version
}

// BatchError is a transaction that the service refused; none of it was done.
// errors.Is knows the sentinels, azstorage.Describe the status and code.
type BatchError struct {
	Index  int // of the operation that failed, or −1 when the service did not say
	Op     Op  // that operation, when Index is not −1
	Status int
	Code   string
	err    error
}

// Error names the operation and the row.
func (e *BatchError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("table transaction: %d %s", e.Status, e.Code)
	}
	return fmt.Sprintf("table transaction: operation %d, %s row %q/%q: %d %s",
		e.Index, e.Op.Kind, e.Op.Entity.PartitionKey, e.Op.Entity.RowKey, e.Status, e.Code)
}

// StorageError is what azstorage.Describe reads: the error inside the transaction,
// whose own status is 202.
func (e *BatchError) StorageError() (status int, code string) { return e.Status, e.Code }

// Unwrap gives the sentinel, if one fits, and the SDK's error.
func (e *BatchError) Unwrap() []error {
	if sentinel := sentinelOf(e); sentinel != nil {
		return []error{sentinel, e.err}
	}
	return []error{e.err}
}

// Submit runs one entity-group transaction: all of ops or none (paper row T2).
// It returns the new ETag of every operation, "" for deletes.
//
// It returns ErrLimit, and sends nothing, for operations on more than one partition,
// more than MaxBatchOps operations, more than MaxBatchBytes, a row named twice, and
// a row over a limit of its own. When the service refuses, the error is a
// *BatchError. A lost reply is recognised by reading a row back (row Q13).
func (t *Table) Submit(ctx context.Context, ops []Op) (etags []string, err error) {
	writeID := newOpID()
	actions, size, err := actionsOf(ops, writeID)
	if err != nil {
		return nil, fmt.Errorf("table transaction: %w", err)
	}
	if size > MaxBatchBytes {
		return nil, fmt.Errorf("table transaction: %w", limitf("%d bytes, at most %d", size, MaxBatchBytes))
	}
	azstorage.CountQuery(ctx, Point)
	try, tries := azstorage.WithAttempts(ctx)
	var reply *http.Response
	_, err = t.client.SubmitTransaction(policy.WithCaptureResponse(try, &reply), actions, nil)
	if err == nil {
		return replyETags(reply, len(ops))
	}
	if *tries > 1 {
		if own, ok := t.ownBatch(ctx, ops, writeID, err); ok {
			return own, nil
		}
	}
	return nil, batchError(ops, err)
}

// actionsOf checks ops and encodes them. size estimates the request in bytes, and
// never too low.
func actionsOf(ops []Op, writeID string) (actions []aztables.TransactionAction, size int, err error) {
	if len(ops) == 0 {
		return nil, 0, errors.New("no operations")
	}
	if len(ops) > MaxBatchOps {
		return nil, 0, limitf("%d operations, at most %d", len(ops), MaxBatchOps)
	}
	partition := ops[0].Entity.PartitionKey
	seen := make(map[string]bool, len(ops))
	actions = make([]aztables.TransactionAction, len(ops))
	for i, op := range ops {
		e := op.Entity
		if e.PartitionKey != partition {
			return nil, 0, limitf("operation %d is in partition %q, the first in %q", i, e.PartitionKey, partition)
		}
		if seen[e.RowKey] {
			return nil, 0, limitf("operation %d names row %q a second time", i, e.RowKey)
		}
		seen[e.RowKey] = true
		actions[i], err = actionOf(op, writeID)
		if err != nil {
			return nil, 0, fmt.Errorf("operation %d, %s row %q/%q: %w", i, op.Kind, e.PartitionKey, e.RowKey, err)
		}
		size += opSize(actions[i], e)
	}
	return actions, size, nil
}

// opSize estimates the bytes that an operation adds to the request: the row, the
// keys once more in the address, and headers.
func opSize(action aztables.TransactionAction, e Entity) int {
	return len(action.Entity) + 3*(len(e.PartitionKey)+len(e.RowKey)) + 1024
}

func actionOf(op Op, writeID string) (aztables.TransactionAction, error) {
	e := op.Entity
	if op.Kind == OpDelete {
		e.Props = nil
	}
	body, err := encode(e, writeID)
	action := aztables.TransactionAction{Entity: body}
	switch op.Kind {
	case OpInsert:
		action.ActionType = aztables.TransactionTypeAdd
	case OpUpsert:
		action.ActionType = aztables.TransactionTypeInsertReplace
	case OpReplace:
		// Without an ETag the service would take it for an upsert.
		action.ActionType, action.IfMatch = aztables.TransactionTypeUpdateReplace, etagOf(op.IfMatch)
	case OpMerge:
		action.ActionType, action.IfMatch = aztables.TransactionTypeUpdateMerge, etagOf(op.IfMatch)
	case OpDelete:
		action.ActionType, action.IfMatch = aztables.TransactionTypeDelete, etagOf(op.IfMatch)
	default:
		return action, fmt.Errorf("unknown kind %q", op.Kind)
	}
	return action, err
}

func replyETags(reply *http.Response, n int) ([]string, error) {
	replies, err := azstorage.BatchReplies(reply)
	if err != nil {
		return nil, fmt.Errorf("table transaction: done, but its reply is unreadable: %w", err)
	}
	etags := make([]string, n)
	for i := range min(n, len(replies)) {
		etags[i] = replies[i].ETag
	}
	return etags, nil
}

func batchError(ops []Op, err error) error {
	status, code, ok := azstorage.Describe(err)
	if !ok {
		return fmt.Errorf("table transaction: %w", err)
	}
	failure := &BatchError{Index: -1, Status: status, Code: code, err: err}
	if reply, inside := azstorage.BatchFailure(err); inside && reply.Index >= 0 && reply.Index < len(ops) {
		failure.Index, failure.Op = reply.Index, ops[reply.Index]
	} else if len(ops) == 1 {
		failure.Index, failure.Op = 0, ops[0]
	}
	return failure
}

// ownBatch decides, after a repeated transaction met a conflict, whether an earlier
// try of ours had succeeded. A transaction is atomic, so one row with our write id
// proves all of it. If it has deletes only, the proof is that all rows are gone.
func (t *Table) ownBatch(ctx context.Context, ops []Op, writeID string, cause error) (etags []string, ok bool) {
	status, _, known := azstorage.Describe(cause)
	if !known || (status != http.StatusConflict && status != http.StatusPreconditionFailed && status != http.StatusNotFound) {
		return nil, false
	}
	etags = make([]string, len(ops))
	writes, gone := 0, 0
	for i, op := range ops {
		if op.Kind != OpDelete {
			writes++
		}
		now, err := t.Get(ctx, op.Entity.PartitionKey, op.Entity.RowKey)
		switch {
		case err == nil && op.Kind != OpDelete && now.opID == writeID:
			etags[i], ok = now.ETag, true
		case errors.Is(err, ErrNotFound) && op.Kind == OpDelete:
			gone++
		case err != nil && !errors.Is(err, ErrNotFound):
			return nil, false
		}
	}
	if writes == 0 {
		return etags, gone == len(ops)
	}
	return etags, ok
}

// SubmitAll runs any number of operations in as few transactions as possible. It
// groups them by partition, in their order, and cuts at MaxBatchOps and
// MaxBatchBytes. Only each transaction is atomic, so it takes only upserts and
// deletes: all of them may be repeated. Deleting a missing row is no error.
func (t *Table) SubmitAll(ctx context.Context, ops []Op) error {
	var order []string
	groups := map[string][]Op{}
	for i, op := range ops {
		if (op.Kind != OpUpsert && op.Kind != OpDelete) || (op.IfMatch != "" && op.IfMatch != AnyETag) {
			return fmt.Errorf("table transactions: operation %d is a conditional %s: want upserts and deletes", i, op.Kind)
		}
		pk := op.Entity.PartitionKey
		if _, seen := groups[pk]; !seen {
			order = append(order, pk)
		}
		groups[pk] = append(groups[pk], op)
	}
	for _, pk := range order {
		chunks, err := chunk(groups[pk])
		if err != nil {
			return fmt.Errorf("table transactions: %w", err)
		}
		for _, c := range chunks {
			if err := t.submitTolerant(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunk cuts the operations of one partition into transactions. A row named
// twice starts a new one, so that the last operation wins.
func chunk(ops []Op) ([][]Op, error) {
	var chunks [][]Op
	var now []Op
	size, seen := 0, map[string]bool{}
	for _, op := range ops {
		action, err := actionOf(op, newOpID())
		if err != nil {
			return nil, fmt.Errorf("%s row %q/%q: %w", op.Kind, op.Entity.PartitionKey, op.Entity.RowKey, err)
		}
		n := opSize(action, op.Entity)
		if len(now) > 0 && (len(now) == MaxBatchOps || size+n > MaxBatchBytes || seen[op.Entity.RowKey]) {
			chunks = append(chunks, now)
			now, size, seen = nil, 0, map[string]bool{}
		}
		now, size = append(now, op), size+n
		seen[op.Entity.RowKey] = true
	}
	if len(now) > 0 {
		chunks = append(chunks, now)
	}
	return chunks, nil
}

// Clear removes all rows that a query selects and returns how many it removed. It reads and
// removes a page at a time, so the memory it needs does not depend on the number of rows,
// and a call after one that failed begins with the rest. Others may see the rows go, and
// rows that are inserted meanwhile may stay. Safe to repeat. Errors are those of Page and
// SubmitAll.
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

// submitTolerant drops deletes of rows that are gone and tries again.
func (t *Table) submitTolerant(ctx context.Context, ops []Op) error {
	for len(ops) > 0 {
		_, err := t.Submit(ctx, ops)
		var failure *BatchError
		if err == nil || !errors.As(err, &failure) || !errors.Is(err, ErrNotFound) {
			return err
		}
		if failure.Index < 0 || failure.Op.Kind != OpDelete {
			return err
		}
		ops = append(append([]Op(nil), ops[:failure.Index]...), ops[failure.Index+1:]...)
	}
	return nil
}
