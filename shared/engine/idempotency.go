package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// IdempotencyTable says which subject an Idempotency-Key made:
//
//	PartitionKey  hash of the owner and the key
//	RowKey        SUBJECT         BodyHash, SubjectID, CreatedAt
//
// The purge removes it. A row that names a missing subject is replaced by the next request.
const IdempotencyTable = "idempotency"

const idempotencyRow = "SUBJECT"

// ErrKeyUsed says that the key made a subject that exists, from another body.
var ErrKeyUsed = errors.New("idempotency key was used with another body")

// CreateOnce creates v, or returns the subject that the same key of the same owner created before,
// if that still exists. bodyHash names what is asked for: ErrKeyUsed when the key was used for
// another body. v.ID must be new in every call, so that no id is used twice. Safe to repeat.
//
// Order of writes: the subject, then the row of the key, which decides which of several equal
// requests was first; the others delete their subjects. A crash between the two writes leaves a
// subject that no client knows. The reconciler removes it like any upload that never came. In
// the other order a row without a subject could be a creation in progress or a purged subject.
func (s *Store[V, P]) CreateOnce(ctx context.Context, key, bodyHash string, v V) (Record[V], error) {
	m := metaOf(&v)
	m.KeyHash = hashKey(m.Owner, key)
	mine := tablestore.Entity{
		PartitionKey: m.KeyHash, RowKey: idempotencyRow,
		Props: map[string]any{"BodyHash": bodyHash, "SubjectID": string(m.ID), "CreatedAt": Now()},
	}
	var made Record[V]
	for {
		var earlier Record[V]
		row, err := s.keys.Get(ctx, m.KeyHash, idempotencyRow)
		if err == nil {
			earlier, err = s.Get(ctx, ID(row.String("SubjectID")))
		}
		switch {
		case err != nil && !errors.Is(err, tablestore.ErrNotFound) && !errors.Is(err, ErrNotFound):
			return Record[V]{}, err
		case err == nil && earlier.Meta().State != Deleting:
			if made.ETag != "" && made.Meta().ID != earlier.Meta().ID { // another request was first
				_, _ = s.Delete(context.WithoutCancel(ctx), made.Meta().ID, "") // or the reconciler does it later
			}
			if row.String("BodyHash") != bodyHash {
				return Record[V]{}, ErrKeyUsed
			}
			return earlier, nil
		case made.ETag == "":
			if made, err = s.Create(ctx, v); err != nil {
				return Record[V]{}, err
			}
		}
		if _, err = s.keys.Put(ctx, mine, row.ETag); !tablestore.Overtaken(err) {
			return made, err
		}
	}
}

// forgetKey removes the row of the key that names a subject, unless it names another.
func (s *Store[V, P]) forgetKey(ctx context.Context, m Meta) error {
	if m.KeyHash == "" {
		return nil
	}
	row, err := s.keys.Get(ctx, m.KeyHash, idempotencyRow)
	if err == nil && row.String("SubjectID") == string(m.ID) {
		err = s.keys.Delete(ctx, row.PartitionKey, row.RowKey, row.ETag)
	}
	if tablestore.Overtaken(err) {
		return nil
	}
	return err
}

// hashKey makes a PartitionKey, so that what a client chose is not stored. With the owner in
// it, guessing a key never leads to another owner's subject.
func hashKey(owner, key string) string {
	sum := sha256.Sum256([]byte("idempotency key\x00" + owner + "\x00" + key))
	return hex.EncodeToString(sum[:])
}
