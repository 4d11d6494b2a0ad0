package videostore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
)

// QuotasTable says how much is taken of what is limited. A partition is a ledger:
//
//	PartitionKey  an owner, or "!all" for all together
//	RowKey        SUMS                          sums over the lines; Day, Seconds of video on it; SweptAt
//	              VIDEO:<id>                    a line: what one video takes of its owner's quota
//	              CLIP:<id>__<name>             a line: a clip that was asked for
//	              REPROCESS:<id>__<generation>  a line: a video that is processed again
//	              NEW:<inverted time>__<id>     the same videos as the lines, newest first
//
// Two requests at once must not both take the last free place, and a repeated request must
// not count twice. So one entity-group transaction changes the sums and a line (T2), on
// the condition that the sums are as they were read, and a repetition finds its line. A
// line is written before what it is for, and refused when that is over a quota. When the
// request dies in between, the line of a video is removed by the reconciler, which finds
// the video's mark in table "inflight", and another line by sweep.
const QuotasTable = "quotas"

const (
	sumsKey        = "SUMS"
	videoLines     = "VIDEO:"
	clipLines      = "CLIP:"
	reprocessLines = "REPROCESS:"
	newestRows     = "NEW:"
	// sweepEvery is the pause between two sweeps of a full ledger.
	sweepEvery = time.Second
)

// amounts are what a line takes, or what all lines of a ledger take together.
type amounts struct{ Bytes, Waiting, Videos, Clips, Reprocessings int64 }

// plus returns the sum of two amounts; times -1 their difference.
func (a amounts) plus(b amounts, times int64) amounts {
	return amounts{
		Bytes: a.Bytes + times*b.Bytes, Waiting: a.Waiting + times*b.Waiting, Videos: a.Videos + times*b.Videos,
		Clips: a.Clips + times*b.Clips, Reprocessings: a.Reprocessings + times*b.Reprocessings,
	}
}

func (a amounts) props() map[string]any {
	return map[string]any{"Bytes": a.Bytes, "Waiting": a.Waiting, "Videos": a.Videos, "Clips": a.Clips, "Reprocessings": a.Reprocessings}
}

func readAmounts(row tablestore.Entity) amounts {
	return amounts{
		Bytes: row.Int64("Bytes"), Waiting: row.Int64("Waiting"), Videos: row.Int64("Videos"),
		Clips: row.Int64("Clips"), Reprocessings: row.Int64("Reprocessings"),
	}
}

// sums is the row SUMS.
type sums struct {
	amounts
	Day     string    // 2006-01-02, of UTC
	Seconds int64     // of video on that day
	SweptAt time.Time // when lines were last compared with their work

	etag string // empty: there is no row
}

// replaced returns the sums with one line instead of another.
func (s sums) replaced(old, want usageRow, seconds int64) sums {
	if today := time.Now().UTC().Format(time.DateOnly); today > s.Day { // clocks differ: never back
		s.Day, s.Seconds = today, 0
	}
	s.amounts = s.plus(want.amounts, 1).plus(old.amounts, -1)
	s.Seconds += seconds
	return s
}

func (s sums) op(ledger string) tablestore.Op {
	props := s.props()
	props["Day"], props["Seconds"] = s.Day, s.Seconds
	if !s.SweptAt.IsZero() {
		props["SweptAt"] = s.SweptAt
	}
	op := tablestore.Op{Kind: tablestore.OpInsert, IfMatch: s.etag, Entity: tablestore.Entity{PartitionKey: ledger, RowKey: sumsKey, Props: props}}
	if s.etag != "" {
		op.Kind = tablestore.OpReplace
	}
	return op
}

// usageRow is the row of one video, clip or reprocessing. The zero row is none.
type usageRow struct {
	amounts
	Generation int // of a video: the newest whose minutes are counted
	CreatedAt  time.Time

	etag string // empty: there is no row
}

// entry is one line of a ledger, and what it is to become.
type entry struct {
	ledger, key string
	quota       Quota // refuses what is over it; zero refuses nothing
	// want returns what the line is to say, given what it says, and seconds of video that
	// are to be counted. It is called after the sums were read.
	want func(ctx context.Context, old usageRow) (usageRow, int64, error)
}

// set makes a line, and the sums with it, what they are to be, or returns a *QuotaError.
// What want reads, it reads after the sums. So a process that has read an older META has
// also read older sums: its transaction is refused, and it reads both again. wrote is
// false when the line was right already.
func (s *Store) set(ctx context.Context, e entry) (wrote bool, _ error) {
	end, err := s.ownerLocks.lock(ctx, e.ledger)
	if err != nil {
		return false, err
	}
	defer end()
	for {
		before, err := s.readSums(ctx, e.ledger)
		if err != nil {
			return false, err
		}
		old, err := s.readLine(ctx, e)
		if err != nil {
			return false, err
		}
		want, seconds, err := e.want(ctx, old)
		if err != nil || want == old {
			return false, err
		}
		after := before.replaced(old, want, seconds)
		if refusal := e.quota.exceededBy(before, after); refusal != nil {
			if freed, err := s.sweep(ctx, e.ledger, before, refusal.Quota); err != nil {
				return false, err
			} else if !freed {
				return false, refusal
			}
			continue
		}
		_, err = s.quotas.Submit(ctx, e.ops(after, old, want))
		if err == nil {
			return true, nil
		}
		if !isStale(err) && !errors.Is(err, tablestore.ErrExists) {
			return false, fmt.Errorf("count %s: %w", e.key, err)
		}
		select { // another process was first
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
	}
}

// ops is the transaction that puts want in the place of old.
func (e entry) ops(after sums, old, want usageRow) []tablestore.Op {
	props := want.props()
	props["Generation"], props["CreatedAt"] = int32(want.Generation), want.CreatedAt
	mine := tablestore.Op{Kind: tablestore.OpInsert, IfMatch: old.etag, Entity: tablestore.Entity{PartitionKey: e.ledger, RowKey: e.key, Props: props}}
	newest := tablestore.Op{Kind: tablestore.OpInsert}
	id, isVideo := strings.CutPrefix(e.key, videoLines)
	switch {
	case want.CreatedAt.IsZero(): // the zero line
		mine.Kind, newest.Kind, newest.IfMatch = tablestore.OpDelete, tablestore.OpDelete, tablestore.AnyETag
		want.CreatedAt = old.CreatedAt
	case old.etag != "":
		mine.Kind, isVideo = tablestore.OpReplace, false // it is listed already
	}
	if !isVideo {
		return []tablestore.Op{after.op(e.ledger), mine}
	}
	newest.Entity = tablestore.Entity{PartitionKey: e.ledger, RowKey: newestRows + tablestore.InvertedTime(want.CreatedAt) + tablestore.Separator + id}
	return []tablestore.Op{after.op(e.ledger), mine, newest}
}

// sweep makes room in a ledger: it removes lines of work that has ended, as many as fit
// one transaction. Workers do not write here, so such lines stay until the ledger is full.
// False when there are none, or the last sweep was a moment ago.
func (s *Store) sweep(ctx context.Context, ledger string, before sums, quota string) (freed bool, _ error) {
	kind := map[string]string{QuotaClips: clipLines, quotaReprocessings: reprocessLines}[quota]
	if kind == "" || time.Since(before.SweptAt) < sweepEvery {
		return false, nil
	}
	rows, err := s.lines(ctx, ledger, kind)
	if err != nil {
		return false, err
	}
	after, ops := before, make([]tablestore.Op, 1)
	for _, row := range rows {
		if len(ops) == tablestore.MaxBatchOps {
			break
		}
		goesOn, err := s.goesOn(ctx, row)
		if err != nil {
			return false, err
		}
		if !goesOn {
			after.amounts = after.plus(readAmounts(row), -1)
			ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: row, IfMatch: row.ETag})
		}
	}
	after.SweptAt = now()
	ops[0] = after.op(ledger)
	if _, err := s.quotas.Submit(ctx, ops); isStale(err) {
		return true, nil // another process was first: look again
	} else if err != nil {
		return false, fmt.Errorf("remove what has ended: %w", err)
	}
	return len(ops) > 1, nil
}

func (s *Store) lines(ctx context.Context, ledger, prefix string) ([]tablestore.Entity, error) {
	rows, err := collect(s.quotas.Query(ctx, tablestore.Query{
		PartitionKey: ledger, RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
	}))
	if err != nil {
		return nil, fmt.Errorf("list what waits: %w", err)
	}
	return rows, nil
}

func (s *Store) readSums(ctx context.Context, ledger string) (sums, error) {
	row, err := s.quotas.Get(ctx, ledger, sumsKey)
	if errors.Is(err, tablestore.ErrNotFound) {
		return sums{}, nil
	}
	if err != nil {
		return sums{}, fmt.Errorf("read what is counted: %w", err)
	}
	return sums{amounts: readAmounts(row), Day: row.String("Day"), Seconds: row.Int64("Seconds"), SweptAt: row.Time("SweptAt"), etag: row.ETag}, nil
}

func (s *Store) readLine(ctx context.Context, e entry) (usageRow, error) {
	row, err := s.quotas.Get(ctx, e.ledger, e.key)
	if errors.Is(err, tablestore.ErrNotFound) {
		return usageRow{}, nil
	}
	if err != nil {
		return usageRow{}, fmt.Errorf("read what %s takes: %w", e.key, err)
	}
	return usageRow{amounts: readAmounts(row), Generation: row.Int("Generation"), CreatedAt: row.Time("CreatedAt"), etag: row.ETag}, nil
}

// keyedMutex lets one request at a time write to a ledger. Without it, requests of one process
// at once would refuse each other's transactions and try again and again. Only the ETag of
// the sums protects against other processes.
type keyedMutex [64]chan struct{}

func newKeyedMutex() (t keyedMutex) {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
	return t
}

// lock waits for the ledger's turn and returns what ends it.
func (t *keyedMutex) lock(ctx context.Context, ledger string) (end func(), _ error) {
	h := fnv.New32a()
	h.Write([]byte(ledger))
	turn := t[h.Sum32()%uint32(len(t))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
