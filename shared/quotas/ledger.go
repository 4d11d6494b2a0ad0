package quotas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
)

// Table says how much is taken of what is limited: docs/data-model.md has its keys. A
// partition is a ledger. An owner may have very many videos, so one entity-group transaction
// changes the sums and a line (T2), on the condition that the sums are as they were read. Of
// requested work there is little at once, so its places are counted. Both are written before
// what they are for. When the request dies in between, the reconciler removes the line of a
// video, whose mark in table "inflight" it finds, and a place goes when the ledger is full.
const Table = "quotas"

const (
	sumsKey    = "SUMS"
	videoLines = "VIDEO:"
	workPlaces = "WORK:"
)

// Ledger keeps the table. Safe for concurrent use.
type Ledger struct {
	videos *videostore.Store
	rows   *tablestore.Table
	limits Limits
	locks  [64]lock // by hash of the partition
}

// lock lets requests of one process take turns at a partition: they would refuse each other
// again and again. Other processes are kept off by ETags and by counting.
type lock struct {
	sync.Mutex
	swept time.Time // when places were last compared with their work
}

// Open returns the ledger of a store of videos, which keeps to it from now on. Call it before the
// store is used. Without limits it only counts.
func Open(a *azstore.Account, videos *videostore.Store, limits Limits) *Ledger {
	l := &Ledger{videos: videos, rows: tablestore.New(a, Table), limits: limits}
	videos.Quotas = l
	return l
}

func (l *Ledger) lockOf(ledger string) *lock {
	return &l.locks[tablestore.Shard(ledger, len(l.locks))]
}

// maxOwnerKey bounds the owner in a key, in bytes. Longer ones are hashed.
const maxOwnerKey = 200

func ledgerOf(owner string) string {
	if key := tablestore.EscapeKey(owner); len(key) <= maxOwnerKey && key != "" {
		return key
	}
	sum := sha256.Sum256([]byte(owner))
	return "!~" + hex.EncodeToString(sum[:])
}

// Reserve takes what a video needs from its owner's quota, or returns an *Error and takes
// nothing. v is the video as it will be. Safe to repeat.
func (l *Ledger) Reserve(ctx context.Context, v video.Video) error {
	_, err := l.count(ctx, v.Meta, l.limits.of(v.Owner), func(context.Context) (video.Video, error) { return v, nil })
	return err
}

// CountOwned makes what is counted for a video's owner follow META, and removes the line and the
// places when there is no META: the request died before it wrote one, or the video was purged.
// Several may run at once, in any order: each reads META again after it has written, so
// the last one leaves the sums right. Safe to repeat.
func (l *Ledger) CountOwned(ctx context.Context, id engine.ID) error {
	read := func(ctx context.Context) (video.Video, error) {
		rec, err := l.videos.Get(ctx, id)
		return rec.Subject, err
	}
	v, err := read(ctx)
	if errors.Is(err, engine.ErrNotFound) { // its mark says whose it was
		var mark engine.Inflight
		mark, err = l.videos.InflightMark(ctx, id)
		err = errors.Join(err, l.leavePlaces(ctx, id))
		v.ID, v.Owner, v.CreatedAt = id, mark.Owner, mark.CreatedAt
	}
	for wrote := v.Owner != ""; wrote && err == nil; {
		wrote, err = l.count(ctx, v.Meta, Quota{}, read)
	}
	return err
}

// Owned returns a page of an owner's videos, newest first, whatever their visibility
// and state: a row range (T5). next continues it and is empty at the end;
// tablestore.ErrToken for a token that is not ours.
func (l *Ledger) Owned(ctx context.Context, owner string, limit int, token string) (ids []engine.ID, next string, err error) {
	_, next, err = l.rows.Page(ctx, tablestore.Query{
		PartitionKey: ledgerOf(owner), RowFrom: videoLines, RowTo: tablestore.PrefixEnd(videoLines),
		PageSize: int32(limit), Class: tablestore.RowRange, Read: tablestore.Into(&ids, readOwned),
	}, token)
	return ids, next, err
}

func readOwned(row tablestore.Entity) (engine.ID, error) {
	_, id, _ := strings.Cut(row.RowKey, tablestore.Separator)
	return engine.ParseID(id)
}

// row is a line, or the sums. The zero row is none.
type row struct {
	Bytes, Waiting, Videos int64

	Generation int // of a line: the newest whose minutes are counted

	Day     string // of the sums: 2006-01-02, of UTC
	Seconds int64  // of the sums: of video on that day

	etag string // empty: there is no row
}

func (l *Ledger) row(ctx context.Context, ledger, key string) (r row, _ error) {
	found, err := l.rows.Get(ctx, ledger, key)
	r.etag = found.ETag
	return r, errors.Join(tablestore.IgnoreNotFound(err), found.Struct(&r))
}

func (r row) op(ledger, key string) tablestore.Op {
	return tablestore.Over(tablestore.Entity{PartitionKey: ledger, RowKey: key, Props: tablestore.Props(r)}, r.etag)
}

// lineOf is what a video takes, given the line that there is. seconds are of a
// generation that is not counted yet, and whose length is known.
func lineOf(v video.Video, old row) (line row, seconds int64) {
	line = old
	line.Bytes, line.Videos, line.Waiting = v.SizeBytes, 1, 0
	if v.State == engine.AwaitingUpload || v.State.Active() {
		line.Waiting = 1
		if v.SizeBytes == 0 { // what arrives was reserved when it began
			line.Bytes = old.Bytes
		}
	}
	if v.DurationSeconds > 0 && v.Generation > old.Generation {
		line.Generation, seconds = v.Generation, int64(math.Ceil(v.DurationSeconds))
	}
	return line, seconds
}

// count makes the line of a video, and the sums with it, what they are to be, or returns an
// *Error. read returns the video as it is to be counted, or engine.ErrNotFound. It is called
// after the sums were read: a process that has read an older META has also read older sums, so
// its transaction is refused and it reads both again. wrote is false when the line was right
// already.
func (l *Ledger) count(
	ctx context.Context, m engine.Meta, quota Quota, read func(context.Context) (video.Video, error),
) (wrote bool, _ error) {
	ledger := ledgerOf(m.Owner)
	key := videoLines + tablestore.InvertedTime(m.CreatedAt) + tablestore.Separator + string(m.ID)
	lock := l.lockOf(ledger)
	lock.Lock()
	defer lock.Unlock()
	for {
		sums, err := l.row(ctx, ledger, sumsKey)
		if err != nil {
			return false, err
		}
		old, err := l.row(ctx, ledger, key)
		if err != nil {
			return false, err
		}
		v, err := read(ctx)
		line, seconds := lineOf(v, old)
		if errors.Is(err, engine.ErrNotFound) {
			line, seconds, err = row{etag: old.etag}, 0, nil
		}
		if err != nil || line == old {
			return false, err
		}
		if today := time.Now().UTC().Format(time.DateOnly); today > sums.Day { // clocks differ: never back
			sums.Day, sums.Seconds = today, 0
		}
		after := sums
		after.Bytes += line.Bytes - old.Bytes
		after.Waiting += line.Waiting - old.Waiting
		after.Videos += line.Videos - old.Videos
		after.Seconds += seconds
		if err := quota.exceededBy(sums, after); err != nil {
			return false, err
		}
		op := line.op(ledger, key)
		if line.Videos == 0 {
			op.Kind = tablestore.OpDelete
		}
		_, err = l.rows.Submit(ctx, []tablestore.Op{after.op(ledger, sumsKey), op})
		if !tablestore.Overtaken(err) {
			return err == nil, err
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // another process was first
	}
}
