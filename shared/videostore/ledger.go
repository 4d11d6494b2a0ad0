package videostore

import (
	"context"
	"errors"
	"fmt"
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
	// maxLines is how many lines of a kind are looked at: more than the limits allow.
	maxLines = 1000
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

// ledgerRow is a line, or the sums. The zero row is none.
type ledgerRow struct {
	amounts
	CreatedAt  time.Time // of a line
	Generation int       // of a video's line: the newest whose minutes are counted

	Day     string    // of the sums: 2006-01-02, of UTC
	Seconds int64     // of the sums: of video on that day
	SweptAt time.Time // of the sums: when lines were last compared with their work

	etag string // empty: there is no row
}

// replaced returns the sums with one line instead of another.
func (r ledgerRow) replaced(old, want ledgerRow, seconds int64) ledgerRow {
	if today := time.Now().UTC().Format(time.DateOnly); today > r.Day { // clocks differ: never back
		r.Day, r.Seconds = today, 0
	}
	r.amounts = r.plus(want.amounts, 1).plus(old.amounts, -1)
	r.Seconds += seconds
	return r
}

// op writes the row over the version that was read.
func (r ledgerRow) op(ledger, key string) tablestore.Op {
	return written(tablestore.Entity{PartitionKey: ledger, RowKey: key, Props: tablestore.Props(r)}, r.etag)
}

func (s *Store) ledgerRow(ctx context.Context, ledger, key string) (r ledgerRow, _ error) {
	row, err := s.quotas.Get(ctx, ledger, key)
	if errors.Is(err, tablestore.ErrNotFound) {
		return r, nil
	}
	r.etag = row.ETag
	if err = errors.Join(err, row.Struct(&r)); err != nil {
		return r, fmt.Errorf("read %s of a quota: %w", key, err)
	}
	return r, nil
}

// entry is one line of a ledger, and what it is to become.
type entry struct {
	ledger, key string
	quota       Quota // refuses what is over it; zero refuses nothing
	// want returns what the line is to say, given what it says, and seconds of video that
	// are to be counted. It is called after the sums were read.
	want func(ctx context.Context, old ledgerRow) (ledgerRow, int64, error)
}

// set makes a line, and the sums with it, what they are to be, or returns a *QuotaError.
// What want reads, it reads after the sums. So a process that has read an older META has
// also read older sums: its transaction is refused, and it reads both again. wrote is
// false when the line was right already.
func (s *Store) set(ctx context.Context, e entry) (wrote bool, _ error) {
	// Without this, requests of one process at once would refuse each other's transactions
	// again and again. Only the ETag of the sums protects against other processes.
	lock := &s.ledgerLocks[hashOf(e.ledger)%uint32(len(s.ledgerLocks))]
	lock.Lock()
	defer lock.Unlock()
	for {
		before, err := s.ledgerRow(ctx, e.ledger, sumsKey)
		if err != nil {
			return false, err
		}
		old, err := s.ledgerRow(ctx, e.ledger, e.key)
		if err != nil {
			return false, err
		}
		want, seconds, err := e.want(ctx, old)
		if err != nil || want == old {
			return false, err
		}
		after := before.replaced(old, want, seconds)
		if refusal := e.quota.exceededBy(before, after); refusal != nil {
			freed, err := s.sweep(ctx, e.ledger, before, refusal.Quota)
			if err == nil && !freed {
				err = refusal
			}
			if err != nil {
				return false, err
			}
			continue
		}
		_, err = s.quotas.Submit(ctx, e.ops(after, old, want))
		if err == nil {
			return true, nil
		}
		if !tablestore.Overtaken(err) {
			return false, fmt.Errorf("count %s: %w", e.key, err)
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // another process was first
	}
}

// ops is the transaction that puts want in the place of old. A video has its row of the list
// as long as its line.
func (e entry) ops(sums, old, want ledgerRow) []tablestore.Op {
	want.etag = old.etag
	mine, newest := want.op(e.ledger, e.key), tablestore.Op{Kind: tablestore.OpInsert}
	created := want.CreatedAt
	if created.IsZero() {
		mine.Kind, newest.Kind, created = tablestore.OpDelete, tablestore.OpDelete, old.CreatedAt
	}
	ops := []tablestore.Op{sums.op(e.ledger, sumsKey), mine}
	if id, isVideo := strings.CutPrefix(e.key, videoLines); isVideo && mine.Kind != tablestore.OpReplace {
		newest.Entity = tablestore.Entity{PartitionKey: e.ledger, RowKey: newestRows + tablestore.InvertedTime(created) + tablestore.Separator + id}
		ops = append(ops, newest)
	}
	return ops
}

// sweep makes room in a ledger: it removes lines of work that has ended, as many as fit
// one transaction. Workers do not write here, so such lines stay until the ledger is full.
// False when there are none, or the last sweep was a moment ago.
func (s *Store) sweep(ctx context.Context, ledger string, sums ledgerRow, quota string) (freed bool, _ error) {
	kind := map[string]string{QuotaClips: clipLines, quotaReprocessings: reprocessLines}[quota]
	if kind == "" || time.Since(sums.SweptAt) < sweepEvery {
		return false, nil
	}
	rows, err := s.lines(ctx, ledger, kind)
	if err != nil {
		return false, err
	}
	var ops []tablestore.Op
	for _, row := range rows {
		if len(ops) == tablestore.MaxBatchOps-1 {
			break
		}
		var line ledgerRow
		goesOn, err := s.goesOn(ctx, row)
		if err = errors.Join(err, row.Struct(&line)); err != nil {
			return false, err
		}
		if !goesOn {
			sums.amounts = sums.plus(line.amounts, -1)
			ops = append(ops, tablestore.Op{Kind: tablestore.OpDelete, Entity: row, IfMatch: row.ETag})
		}
	}
	sums.SweptAt = now()
	_, err = s.quotas.Submit(ctx, append(ops, sums.op(ledger, sumsKey)))
	if tablestore.Overtaken(err) {
		return true, nil // another process was first: look again
	}
	if err != nil {
		return false, fmt.Errorf("remove what has ended: %w", err)
	}
	return len(ops) > 0, nil
}

func (s *Store) lines(ctx context.Context, ledger, prefix string) ([]tablestore.Entity, error) {
	rows, err := s.quotas.First(ctx, tablestore.Query{
		PartitionKey: ledger, RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange,
	}, maxLines)
	if err != nil {
		return nil, fmt.Errorf("list what waits: %w", err)
	}
	return rows, nil
}
