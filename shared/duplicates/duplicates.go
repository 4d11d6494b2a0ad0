// Package duplicates finds uploads of a video that exists already: table "twins" of
// docs/data-model.md. Its key is what an upload is (S1), so whether there is a twin is a point
// query (T5). A video's own rows, by which the purge finds what to remove, are written first.
package duplicates

import (
	"context"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
)

// Table is the table's base name.
const Table = "twins"

const firstRow = "first"

// SameFile is the key of a file by its content.
func SameFile(sha256 string, bytes int64) string { return fmt.Sprintf("sha256-%s-%d", sha256, bytes) }

// SameLook is the key of a video by hashes of some of its pictures and its length in seconds.
func SameLook(hashes string, seconds int) string { return fmt.Sprintf("looks-%s-%d", hashes, seconds) }

// Index is the table. It is safe for concurrent use.
type Index struct{ table *tablestore.Table }

// New returns the index of an account, whose table must exist.
func New(a *azstore.Account) *Index { return &Index{tablestore.New(a, Table)} }

// First notes that a video has a key, and returns which living video had it first, perhaps id
// itself. A first one that is gone is replaced. Safe to repeat.
func (x *Index) First(ctx context.Context, id engine.ID, key string, lives func(context.Context, engine.ID) (bool, error)) (engine.ID, error) {
	kind, _, _ := strings.Cut(key, "-")
	own := tablestore.Entity{PartitionKey: string(id), RowKey: kind, Props: map[string]any{"Key": key}}
	if _, err := x.table.Upsert(ctx, own); err != nil {
		return "", err
	}
	row := tablestore.Entity{PartitionKey: key, RowKey: firstRow, Props: map[string]any{"Video": string(id)}}
	for {
		there, err := x.table.Get(ctx, key, firstRow)
		if err = tablestore.IgnoreNotFound(err); err != nil {
			return "", err
		}
		if first := engine.ID(there.String("Video")); first != "" && first != id {
			if alive, err := lives(ctx, first); err != nil || alive {
				return first, err
			}
		}
		if _, err = x.table.Put(ctx, row, there.ETag); !tablestore.Overtaken(err) {
			return id, err
		}
	}
}

// Remove forgets a deleted video. Safe to repeat.
func (x *Index) Remove(ctx context.Context, id engine.ID) error {
	for row, err := range x.table.Query(ctx, tablestore.Query{PartitionKey: string(id), Class: tablestore.RowRange}) {
		if err != nil {
			return err
		}
		key := row.String("Key")
		first, err := x.table.Get(ctx, key, firstRow)
		if err == nil && first.String("Video") == string(id) {
			err = x.table.Delete(ctx, key, firstRow, first.ETag)
		}
		if err == nil || tablestore.Overtaken(err) { // it is not there, or another video's by now
			err = x.table.Delete(ctx, row.PartitionKey, row.RowKey, tablestore.AnyETag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
