package videostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// IdempotencyTable says which video an Idempotency-Key made:
//
//	PartitionKey  hash of the owner and the key
//	RowKey        VIDEO           BodyHash, VideoID, CreatedAt
//
// The purge removes it. A row that names a missing video is replaced by the next request.
const IdempotencyTable = "idempotency"

const idempotencyRow = "VIDEO"

// discardTime bounds the requests that remove a video again, beyond the caller's context.
const discardTime = 10 * time.Second

// ErrKeyUsed says that the key made a video that exists, from another body.
var ErrKeyUsed = errors.New("idempotency key was used with another body")

// CreateOnce creates v, or returns the video that the same key of the same owner created before,
// if that still exists. bodyHash names what is asked for: ErrKeyUsed when the key was used for
// another body. v.ID must be new in every call, so that no id is used twice. Safe to repeat.
//
// Order of writes: the video, then the row of the key, which decides which of several equal
// requests was first; the others remove their videos. A crash between the two writes leaves a
// video that no client knows. The reconciler removes it like any upload that never came. In
// the other order a row without a video could be a creation in progress or a purged video.
func (s *Store) CreateOnce(ctx context.Context, key, bodyHash string, v video.Video) (Record, error) {
	v.KeyHash = hashKey(v.Owner, key)
	mine := tablestore.Entity{
		PartitionKey: v.KeyHash, RowKey: idempotencyRow,
		Props: map[string]any{"BodyHash": bodyHash, "VideoID": string(v.ID), "CreatedAt": now()},
	}
	var made Record
	for {
		row, earlier, err := s.createdBefore(ctx, v.KeyHash)
		switch {
		case err != nil:
			return Record{}, err
		case earlier.ETag != "":
			if made.ETag != "" && made.Video.ID != earlier.Video.ID {
				s.discard(ctx, made)
			}
			if row.String("BodyHash") != bodyHash {
				return Record{}, ErrKeyUsed
			}
			return earlier, nil
		case made.ETag == "":
			if made, err = s.Create(ctx, v); err != nil {
				return Record{}, err
			}
		}
		if _, err = s.keys.Put(ctx, mine, row.ETag); !tablestore.Overtaken(err) {
			return made, err
		}
	}
}

// createdBefore reads the row of a key and the video that it names; zero for what is not
// there, or is being deleted.
func (s *Store) createdBefore(ctx context.Context, keyHash string) (row tablestore.Entity, rec Record, err error) {
	row, err = s.keys.Get(ctx, keyHash, idempotencyRow)
	if err != nil {
		return row, rec, tablestore.IgnoreNotFound(err)
	}
	rec, err = s.Get(ctx, video.ID(row.String("VideoID")))
	if errors.Is(err, ErrNotFound) || err == nil && rec.Video.State == video.Deleting {
		return row, Record{}, nil
	}
	return row, rec, err
}

// discard removes a video whose request was not the first, also when the caller has
// stopped waiting. If it fails, the reconciler removes the video later.
func (s *Store) discard(ctx context.Context, made Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	id := made.Video.ID
	if s.videos.Delete(ctx, string(id), metaKey, made.ETag) == nil && s.CountOwned(ctx, id) == nil {
		_ = s.ClearInflight(ctx, Inflight{ID: id, ETag: tablestore.AnyETag})
	}
}

// forgetKey removes the row of the key that names a video, unless it names another.
func (s *Store) forgetKey(ctx context.Context, v video.Video) error {
	if v.KeyHash == "" {
		return nil
	}
	row, err := s.keys.Get(ctx, v.KeyHash, idempotencyRow)
	if err == nil && row.String("VideoID") == string(v.ID) {
		err = s.keys.Delete(ctx, row.PartitionKey, row.RowKey, row.ETag)
	}
	if tablestore.Overtaken(err) {
		return nil
	}
	return err
}

// hashKey makes a PartitionKey, so that what a client chose is not stored. With the owner in
// it, guessing a key never leads to another owner's video.
func hashKey(owner, key string) string {
	sum := sha256.Sum256([]byte("idempotency key\x00" + owner + "\x00" + key))
	return hex.EncodeToString(sum[:])
}
