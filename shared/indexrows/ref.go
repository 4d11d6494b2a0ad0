package indexrows

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Key names a derived row.
type Key struct {
	Table        string // base name
	PartitionKey string
	RowKey       string
}

// reference is the content of a back-reference, nearly always alone in its partition
// (unique, T4), which is read by point queries (T5). Its JSON is compressed: the keys of
// one video's rows differ little.
type reference struct {
	Rows []Key `json:"rows"` // what the last run that ended has written
	Runs []run `json:"runs,omitempty"`

	etag string // "" when the row does not exist
}

// run is the note of a run that has begun: the rows that it may write.
type run struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Rows []Key     `json:"rows"`
}

// keys lists the rows that any run has written or may have written, and those of own.
func (r reference) keys(own []Key) []Key {
	list := slices.Concat(r.Rows, own)
	for _, run := range r.Runs {
		list = append(list, run.Rows...)
	}
	return distinct(list)
}

func distinct(list []Key) []Key {
	set := map[Key]bool{}
	for _, key := range list {
		set[key] = true
	}
	return slices.Collect(maps.Keys(set))
}

// partitionOf is where the rows about one video live in the home table.
func partitionOf(id video.ID) string { return "~" + string(id) }

// pieceBytes is how much of the text goes into one property; the service's
// limit is 64 KiB.
const pieceBytes = 60_000

func (k *Keeper) load(ctx context.Context, id video.ID) (reference, error) {
	row, err := k.tables[k.home].Get(ctx, partitionOf(id), k.rowKey)
	if errors.Is(err, tablestore.ErrNotFound) {
		return reference{}, nil
	}
	ref := reference{etag: row.ETag}
	if err == nil {
		err = ref.read(row)
	}
	if err != nil {
		return reference{}, fmt.Errorf("reading back-reference: %w", err)
	}
	return ref, nil
}

func (r *reference) read(row tablestore.Entity) error {
	var text []byte
	for i := range len(row.Props) {
		text = append(text, row.Bytes(pieceName(i))...)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return json.NewDecoder(unzipped).Decode(r)
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
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	_ = json.NewEncoder(zipped).Encode(ref) // texts and times always encode, and memory takes all
	_ = zipped.Close()
	row := tablestore.Entity{PartitionKey: partitionOf(id), RowKey: k.rowKey, Props: map[string]any{}}
	for piece := range slices.Chunk(text.Bytes(), pieceBytes) {
		row.Props[pieceName(len(row.Props))] = piece
	}
	return row
}

func pieceName(i int) string { return fmt.Sprintf("Rows%02d", i) }
