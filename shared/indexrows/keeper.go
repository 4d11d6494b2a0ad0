package indexrows

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

const (
	// writeWindow is how long a run may write after its note.
	writeWindow = 30 * time.Second
	// Expiry is the age at which the note of a run that did not end is dropped:
	// the write window, and as much again because clocks differ.
	Expiry = 2 * writeWindow

	maxRounds = 10 // of a Sync, before it says ErrContended
	parallel  = 8  // partitions written at the same time
)

// ErrBusy says that the wanted rows are written, but another run has not ended
// and may still change them. The caller must call again, for Expiry at the longest.
var ErrBusy = errors.New("another indexing run of this video has not ended")

// ErrContended says that other runs kept changing the same rows. Safe to try again.
var ErrContended = errors.New("too many runs index this video at once")

// Current reads the truth about a video: its META row. ok is false when the
// video does not exist.
type Current func(ctx context.Context) (v video.Video, ok bool, err error)

// Row is a derived row as it should be.
type Row struct {
	Table  string // base name
	Entity tablestore.Entity
}

func keysOf(rows []Row) []Key {
	list := make([]Key, len(rows))
	for i, r := range rows {
		list[i] = Key{Table: r.Table, PartitionKey: r.Entity.PartitionKey, RowKey: r.Entity.RowKey}
	}
	return list
}

// Keeper keeps one kind of derived rows. It is safe for concurrent use.
type Keeper struct {
	home   string
	rowKey string
	rowsOf func(video.Video) []Row
	tables map[string]*tablestore.Table

	// Applied is called before the note is replaced, with the rows that were
	// added or removed. unsure says that other runs had not ended when this one began:
	// then they are all rows that any of the runs may have written or removed. It must
	// be safe to repeat, and safe to run after the write window.
	Applied func(ctx context.Context, changed []Key, unsure bool) error

	// Now is the clock for the dates of notes.
	Now func() time.Time
}

// New returns a Keeper whose back-references are rows rowKey of table home. rowsOf lists
// the derived rows of a video, none when lists must not show it; they depend on the video
// only, and lie in tables (base names); home may be one of them.
func New(a *azstore.Account, home, rowKey string, rowsOf func(video.Video) []Row, tables ...string) *Keeper {
	k := &Keeper{home: home, rowKey: rowKey, rowsOf: rowsOf, tables: map[string]*tablestore.Table{}, Now: time.Now}
	k.Applied = func(context.Context, []Key, bool) error { return nil }
	for _, name := range append(tables, home) {
		k.tables[name] = tablestore.New(a, name)
	}
	return k
}

// Sync makes the derived rows of video id equal to the truth, which current reads. It is
// safe to repeat, and to run beside other Syncs of the same video. It returns ErrBusy
// when the video must have no rows and another run may still write some. ErrContended.
func (k *Keeper) Sync(ctx context.Context, id engine.ID, current Current) error {
	runID := strconv.FormatUint(rand.Uint64(), 36)
	for round := range maxRounds {
		if done, err := k.round(ctx, id, current, runID); done || err != nil {
			return err
		}
		// Two runs disturb each other until one pauses for as long as a round of the other takes.
		if err := azstore.Sleep(ctx, rand.N(100*time.Millisecond<<min(round, 6))); err != nil {
			return fmt.Errorf("waiting for another indexing run: %w", err)
		}
	}
	return ErrContended
}

// Remove is Sync of a video that does not exist.
func (k *Keeper) Remove(ctx context.Context, id engine.ID) error {
	return k.Sync(ctx, id, func(context.Context) (video.Video, bool, error) { return video.Video{}, false, nil })
}

// round is one pass through the four steps of docs/patterns/index-table-search.md. Unless it is done,
// another run changed the back-reference.
func (k *Keeper) round(ctx context.Context, id engine.ID, current Current, runID string) (done bool, err error) {
	ref, err := k.load(ctx, id)
	if err != nil {
		return false, err
	}
	v, there, err := current(ctx)
	if err != nil {
		return false, err
	}
	var rows []Row
	if there {
		rows = k.rowsOf(v)
	}
	if len(rows) == 0 && ref.etag == "" {
		return true, nil
	}

	// snippet: note-then-truth
	// 1. The note, beside those of earlier rounds.
	window, cancel := context.WithTimeout(ctx, writeWindow)
	defer cancel()
	wanted, before, unsure := keysOf(rows), ref.keys(), len(ref.Runs) > 0
	ref.Runs = append(ref.Runs, run{ID: runID, At: k.Now().UTC(), Rows: wanted})
	if err := k.save(ctx, id, &ref); err != nil {
		return false, unlessOvertaken(err)
	}

	// 2. The truth, after the note.
	again, still, err := current(ctx)
	if err != nil || still != there || !reflect.DeepEqual(again, v) {
		return false, err
	}
	// end snippet

	// 3. The rows.
	err = k.apply(window, rows, before)
	if err == nil {
		err = k.Applied(ctx, changed(before, wanted, unsure), unsure)
	}
	if err != nil {
		return false, err
	}

	// 4. The notes are replaced: own ones, and those of dead runs.
	ref.Rows = wanted
	ref.Runs = slices.DeleteFunc(ref.Runs, func(r run) bool { return r.ID == runID || k.Now().Sub(r.At) > Expiry })
	if len(wanted) == 0 && len(ref.Runs) == 0 {
		err = k.tables[k.home].Delete(ctx, partitionOf(id), k.rowKey, ref.etag)
	} else {
		err = k.save(ctx, id, &ref)
	}
	if err == nil && len(wanted) == 0 && len(ref.Runs) > 0 {
		return false, fmt.Errorf("removing rows: %w", ErrBusy)
	}
	return err == nil, unlessOvertaken(err)
}

// unlessOvertaken is err, but nil if another run wrote first.
func unlessOvertaken(err error) error {
	if tablestore.Overtaken(err) {
		return nil
	}
	return err
}

// changed lists the rows that are in one of before and wanted; when that is unsure, all.
func changed(before, wanted []Key, unsure bool) []Key {
	times := map[Key]int{}
	for _, key := range slices.Concat(before, wanted) {
		times[key]++
	}
	maps.DeleteFunc(times, func(_ Key, n int) bool { return n > 1 && !unsure })
	return slices.Collect(maps.Keys(times))
}

// apply writes rows, then removes those of old that are not among them. What lies in
// one partition is one transaction, up to 100 rows.
func (k *Keeper) apply(ctx context.Context, rows []Row, old []Key) error {
	type place struct{ table, partition string }
	all := map[place][]tablestore.Op{}
	wanted := map[Key]bool{}
	for i, key := range keysOf(rows) {
		p := place{key.Table, key.PartitionKey}
		all[p] = append(all[p], tablestore.Op{Kind: tablestore.OpUpsert, Entity: rows[i].Entity})
		wanted[key] = true
	}
	for _, key := range old {
		if !wanted[key] {
			p := place{key.Table, key.PartitionKey}
			row := tablestore.Entity{PartitionKey: key.PartitionKey, RowKey: key.RowKey}
			all[p] = append(all[p], tablestore.Op{Kind: tablestore.OpDelete, Entity: row})
		}
	}
	for _, first := range []tablestore.OpKind{tablestore.OpUpsert, tablestore.OpDelete} {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for p, ops := range all {
			if ops[0].Kind == first {
				group.Go(func() error { return k.tables[p.table].SubmitAll(groupCtx, ops) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// Load fills an index that has no rows of these videos and no other writers. Rows of
// different videos that share a partition are written in one transaction, so it needs a
// fraction of the requests of as many Syncs. It does not call Applied, and returns what it has
// written. Safe to repeat; it needs memory for all videos.
func (k *Keeper) Load(ctx context.Context, videos []video.Video) ([]Key, error) {
	var all, refs []Row
	for _, v := range videos {
		if rows := k.rowsOf(v); len(rows) > 0 {
			all = append(all, rows...)
			refs = append(refs, Row{Table: k.home, Entity: k.entity(v.ID, &reference{Rows: keysOf(rows)})})
		}
	}
	if err := k.apply(ctx, append(refs, all...), nil); err != nil {
		return nil, fmt.Errorf("loading rows: %w", err)
	}
	return keysOf(all), nil
}

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

// keys lists the rows that any run has written or may have written.
func (r reference) keys() []Key {
	set := map[Key]bool{}
	for _, run := range slices.Concat(r.Runs, []run{{Rows: r.Rows}}) {
		for _, key := range run.Rows {
			set[key] = true
		}
	}
	return slices.Collect(maps.Keys(set))
}

func partitionOf(id engine.ID) string { return "~" + string(id) }

// pieceBytes is how much of the text goes into one property; the service's
// limit is 64 KiB.
const pieceBytes = 60_000

func (k *Keeper) load(ctx context.Context, id engine.ID) (reference, error) {
	row, err := k.tables[k.home].Get(ctx, partitionOf(id), k.rowKey)
	if err != nil {
		return reference{}, tablestore.IgnoreNotFound(err)
	}
	ref := reference{etag: row.ETag}
	var text []byte
	for i := range len(row.Props) {
		text = append(text, row.Bytes(pieceName(i))...)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err == nil {
		err = json.NewDecoder(unzipped).Decode(&ref)
	}
	if err != nil {
		return reference{}, fmt.Errorf("reading back-reference: %w", err)
	}
	return ref, nil
}

// save writes ref under its ETag and sets the new one. It returns
// tablestore.ErrExists, ErrChanged or ErrNotFound when another run wrote first.
func (k *Keeper) save(ctx context.Context, id engine.ID, ref *reference) error {
	etag, err := k.tables[k.home].Put(ctx, k.entity(id, ref), ref.etag)
	ref.etag = etag
	return err
}

func (k *Keeper) entity(id engine.ID, ref *reference) tablestore.Entity {
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
