package indexrows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Key names a derived row.
type Key struct {
	Table        string // base name
	PartitionKey string
	RowKey       string
}

// reference is the content of a back-reference, nearly always alone in its partition
// (unique, T4), which is read by point queries (T5).
type reference struct {
	Rows keys  `json:"rows"` // what the last run that ended has written
	Runs []run `json:"runs,omitempty"`

	etag string // "" when the row does not exist
}

// run is the note of a run that has begun: the rows that it may write.
type run struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Rows keys      `json:"rows"`
}

// keys is a set of keys, grouped because postings differ in the PartitionKey only.
type keys map[string]map[string][]string // table, row key, partition keys

func keysOf(list []Key) keys {
	set := keys{}
	for _, k := range list {
		if set[k.Table] == nil {
			set[k.Table] = map[string][]string{}
		}
		set[k.Table][k.RowKey] = append(set[k.Table][k.RowKey], k.PartitionKey)
	}
	for _, rows := range set {
		for rk := range rows {
			slices.Sort(rows[rk])
			rows[rk] = slices.Compact(rows[rk])
		}
	}
	return set
}

func (s keys) list() []Key {
	var list []Key
	for table, rows := range s {
		for rk, partitions := range rows {
			for _, pk := range partitions {
				list = append(list, Key{Table: table, PartitionKey: pk, RowKey: rk})
			}
		}
	}
	return list
}

// keys lists the rows that any run has written or may have written, and those of own.
func (r reference) keys(own []Key) []Key {
	list := slices.Concat(r.Rows.list(), own)
	for _, run := range r.Runs {
		list = append(list, run.Rows.list()...)
	}
	return list
}

// partitionOf is where the rows about one video live in the home table.
func partitionOf(id video.ID) string { return "~" + string(id) }

// pieceBytes is how much of the JSON goes into one property; the service's
// limit is 64 KiB.
const pieceBytes = 60_000

func (k *Keeper) load(ctx context.Context, id video.ID) (reference, error) {
	row, err := k.tables[k.home].Get(ctx, partitionOf(id), k.rowKey)
	if errors.Is(err, tablestore.ErrNotFound) {
		return reference{}, nil
	}
	if err != nil {
		return reference{}, fmt.Errorf("reading back-reference: %w", err)
	}
	var text []byte
	for i := 0; ; i++ {
		piece := row.Bytes(pieceName(i))
		if len(piece) == 0 {
			break
		}
		text = append(text, piece...)
	}
	ref := reference{etag: row.ETag}
	if err := json.Unmarshal(text, &ref); err != nil {
		return reference{}, fmt.Errorf("reading back-reference: %w", err)
	}
	return ref, nil
}

// save writes ref under its ETag and sets the new one. It returns
// tablestore.ErrExists, ErrChanged or ErrNotFound when another run wrote first.
func (k *Keeper) save(ctx context.Context, id video.ID, ref *reference) error {
	row, home := k.entity(id, ref), k.tables[k.home]
	var err error
	if ref.etag == "" {
		ref.etag, err = home.Insert(ctx, row)
	} else {
		ref.etag, err = home.Update(ctx, row, ref.etag)
	}
	if err != nil {
		return fmt.Errorf("writing back-reference: %w", err)
	}
	return nil
}

// entity is the row of a back-reference.
func (k *Keeper) entity(id video.ID, ref *reference) tablestore.Entity {
	text, _ := json.Marshal(ref) // texts and times always encode
	row := tablestore.Entity{PartitionKey: partitionOf(id), RowKey: k.rowKey, Props: map[string]any{}}
	i := 0
	for piece := range slices.Chunk(text, pieceBytes) {
		row.Props[pieceName(i)] = piece
		i++
	}
	return row
}

func pieceName(i int) string { return fmt.Sprintf("Rows%02d", i) }
