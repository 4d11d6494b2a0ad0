package videostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// QuotasTable says how much is taken of what is limited. A partition is a ledger:
//
//	PartitionKey  an owner, or "!clips" or "!reprocessings" of all together
//	RowKey        SUMS                        of an owner: sums over the lines; Day, Seconds of video on it
//	              VIDEO:<inverted time>__<id> a line: what one video takes of its owner's quota; newest first
//	              WORK:<item id>              a place: a clip or a reprocessing that was asked for
//
// Two requests at once must not both take the last free place, and a repeated request must
// not count twice. An owner may have very many videos, so one entity-group transaction
// changes the sums and a line (T2), on the condition that the sums are as they were read.
// Of requested work there is little at once, so a request inserts its place and counts
// them all: see takePlace.
//
// Both are written before what they are for. When the request dies in between, the line of a
// video is removed by the reconciler, which finds the video's mark in table "inflight", and a
// place when the ledger is full.
const QuotasTable = "quotas"

const (
	sumsKey    = "SUMS"
	videoLines = "VIDEO:"
	workPlaces = "WORK:"

	// sweepEvery is the pause between two sweeps of a full ledger by one process.
	sweepEvery = time.Second
	// maxPlaces is how many places are looked at: more than the limits allow.
	maxPlaces = 1000
	// unpromised is how long a place is kept whose work is not promised: its request may
	// still be in progress.
	unpromised = time.Minute

	// EscapeKey writes digits after "!", so no owner has these keys.
	allClips         = "!clips"
	allReprocessings = "!reprocessings"
)

// ledgerRow is a line, or the sums. The zero row is none.
type ledgerRow struct {
	Bytes, Waiting, Videos int64

	Generation int // of a line: the newest whose minutes are counted

	Day     string // of the sums: 2006-01-02, of UTC
	Seconds int64  // of the sums: of video on that day

	etag string // empty: there is no row
}

// replaced returns the sums with one line instead of another.
func (r ledgerRow) replaced(old, want ledgerRow, seconds int64) ledgerRow {
	if today := time.Now().UTC().Format(time.DateOnly); today > r.Day { // clocks differ: never back
		r.Day, r.Seconds = today, 0
	}
	r.Bytes += want.Bytes - old.Bytes
	r.Waiting += want.Waiting - old.Waiting
	r.Videos += want.Videos - old.Videos
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

// ledgerLock lets requests of one process take turns at a ledger. Without it they would refuse
// each other again and again. Other processes are kept off by ETags and by counting.
type ledgerLock struct {
	sync.Mutex
	swept time.Time // when places were last compared with their work
}

func (s *Store) lockOf(ledger string) *ledgerLock {
	return &s.ledgerLocks[hashOf(ledger)%uint32(len(s.ledgerLocks))]
}

// count makes the line of a video, and the sums with it, what they are to be, or returns a
// *QuotaError when that is over the quota. owned has the video's id, owner and time of
// creation; meta returns the video as it is to be counted, or ErrNotFound when there is none.
// It is called after the sums were read: a process that has read an older META has also read
// older sums, so its transaction is refused and it reads both again. wrote is false when the
// line was right already.
func (s *Store) count(
	ctx context.Context, owned video.Video, quota Quota, meta func(context.Context) (video.Video, error),
) (wrote bool, _ error) {
	ledger := ledgerOf(owned.Owner)
	key := videoLines + tablestore.InvertedTime(owned.CreatedAt) + tablestore.Separator + string(owned.ID)
	lock := s.lockOf(ledger)
	lock.Lock()
	defer lock.Unlock()
	for {
		before, err := s.ledgerRow(ctx, ledger, sumsKey)
		if err != nil {
			return false, err
		}
		old, err := s.ledgerRow(ctx, ledger, key)
		if err != nil {
			return false, err
		}
		v, err := meta(ctx)
		want, seconds := lineOf(v, old)
		if errors.Is(err, ErrNotFound) {
			want, seconds, err = ledgerRow{}, 0, nil
		}
		if err != nil || want == old {
			return false, err
		}
		after := before.replaced(old, want, seconds)
		if refusal := quota.exceededBy(before, after); refusal != nil {
			return false, refusal
		}
		want.etag = old.etag
		line := want.op(ledger, key)
		if want.Videos == 0 {
			line.Kind = tablestore.OpDelete
		}
		_, err = s.quotas.Submit(ctx, []tablestore.Op{after.op(ledger, sumsKey), line})
		if err == nil {
			return true, nil
		}
		if !tablestore.Overtaken(err) {
			return false, fmt.Errorf("count %s: %w", owned.ID, err)
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // another process was first
	}
}

// takePlace takes one of the places that a ledger has for requested work, or returns full and
// takes none. Workers do not write here, so a place stays until the work has ended and the
// ledger is full. Safe to repeat.
//
// The place is inserted before the others are counted, so there are never too many. Of
// requests to several processes at once, one too many may be refused.
func (s *Store) takePlace(ctx context.Context, ledger string, work workflow.Key, limit int64, full error) error {
	if limit == 0 {
		return nil
	}
	lock := s.lockOf(ledger)
	lock.Lock()
	defer lock.Unlock()
	mine := workPlaces + work.ItemID()
	_, err := s.quotas.Insert(ctx, tablestore.Entity{PartitionKey: ledger, RowKey: mine})
	if errors.Is(err, tablestore.ErrExists) {
		return nil
	}
	var others []tablestore.Entity
	if err == nil {
		others, err = s.quotas.First(ctx, tablestore.Query{
			PartitionKey: ledger, RowFrom: workPlaces, RowTo: tablestore.PrefixEnd(workPlaces), Class: tablestore.RowRange,
		}, maxPlaces)
	}
	others = slices.DeleteFunc(others, func(place tablestore.Entity) bool { return place.RowKey == mine })
	if err == nil && int64(len(others)) >= limit && time.Since(lock.swept) >= sweepEvery {
		lock.swept = time.Now()
		others, err = s.sweep(ctx, others)
	}
	if err != nil {
		return fmt.Errorf("take a place for %s: %w", work, err)
	}
	if int64(len(others)) >= limit {
		return cmp.Or(s.leavePlace(ctx, ledger, work), full)
	}
	return nil
}

// leavePlace gives a place back. Safe to repeat.
func (s *Store) leavePlace(ctx context.Context, ledger string, work workflow.Key) error {
	err := s.quotas.Delete(ctx, ledger, workPlaces+work.ItemID(), tablestore.AnyETag)
	if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
		return fmt.Errorf("give back the place of %s: %w", work, err)
	}
	return nil
}

// sweep removes the places of work that has ended, and returns the others.
func (s *Store) sweep(ctx context.Context, places []tablestore.Entity) (taken []tablestore.Entity, _ error) {
	for _, place := range places {
		goesOn, err := s.goesOn(ctx, place)
		if err == nil && !goesOn {
			err = s.quotas.Delete(ctx, place.PartitionKey, place.RowKey, place.ETag)
		}
		switch {
		case goesOn, errors.Is(err, tablestore.ErrUnreadable):
			taken = append(taken, place)
		case err != nil && !tablestore.Overtaken(err):
			return nil, err
		}
	}
	return taken, nil
}

// goesOn reports whether the work of a place has not ended: two point reads at most.
func (s *Store) goesOn(ctx context.Context, place tablestore.Entity) (bool, error) {
	asking := time.Since(place.Timestamp) < unpromised
	work, err := workflow.ParseItemID(strings.TrimPrefix(place.RowKey, workPlaces))
	if err != nil {
		return false, nil // not ours
	}
	rec, err := s.Get(ctx, work.ID)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if generation := rec.Video.Generation; work.Declared().Stage == workflow.First {
		return generation < work.Generation && asking || generation == work.Generation && rec.Video.State.Active(), nil
	}
	clip, err := s.step(ctx, work)
	if errors.Is(err, errNoStep) {
		return asking, nil
	}
	return err == nil && !clip.Ended(), err
}
